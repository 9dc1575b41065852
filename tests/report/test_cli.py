"""`utds report` from the command line: files, one line for what is wrong, exit codes; the guide's snippet runs."""

import json
import re
from pathlib import Path

import pytest

from utds.cli import main

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "report.md"


def test_writes_what_is_asked_for(benchmark_tree, tmp_path, capsys):
    out, csv, markdown = (tmp_path / name for name in ("report.html", "results.csv", "results.md"))
    main(["report", str(benchmark_tree), "-o", str(out), "--csv", str(csv), "--markdown", str(markdown)])
    said = capsys.readouterr()
    assert said.out.startswith("With UTDS, sharing helps") and said.out.rstrip().endswith(
        f"wrote {out}, {csv}, {markdown}"
    )
    assert said.err == ""
    page = out.read_text()
    assert not re.search(r"(src|href)=\"(?!#)", page) and "url(http" not in page and "@import" not in page
    assert csv.read_text().count("\n") > 200 and markdown.read_text().startswith("# With UTDS, sharing helps")


def test_json(benchmark_tree, tmp_path, capsys):
    main(["report", str(benchmark_tree), "-o", str(tmp_path / "report.html"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["headline"].startswith("With UTDS, sharing helps") and found["verdict"] == "helps"
    gain = found["sharing"]["gain"]
    assert found["sharing"]["algorithm"] == "utds" and 0 < gain["low"] < gain["value"] < gain["high"]
    assert found["written"] == [str(tmp_path / "report.html")] and found["missing"] == []


def test_warns_and_goes_on(write_run, tmp_path, capsys):
    write_run(tmp_path / "runs" / "good", "walker-walk/medium", ("walker-run/replay",), "utds", (60.0, 61.0))
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "config.json").write_text('{"steps": ')
    main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "report.html")])
    said = capsys.readouterr()
    assert [line.split(":")[1].strip() for line in said.err.splitlines()] == ["warning", "missing"]
    assert "bad" in said.err and "is no valid JSON" in said.err
    assert "is no valid JSON" in (tmp_path / "report.html").read_text()
    assert "Nothing to compare sharing with" in said.out


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_nothing_to_report_ends_with_one_line(tmp_path, capsys, name):
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path / name), "-o", str(tmp_path / "report.html")])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("utds: error: ") and str(tmp_path) in line
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("options", [["--csv", "page"], ["--csv", "b", "--markdown", "runs/../b"]])
def test_two_documents_of_one_name_are_refused_before_anything_is_written(
    write_run, tmp_path, monkeypatch, capsys, options
):
    write_run(tmp_path / "runs" / "good", "walker-walk/medium")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["report", "runs", "-o", str(tmp_path / "page"), *options])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "two of these are one file" in line and [p.name for p in tmp_path.iterdir()] == ["runs"]


def test_the_guides_snippet_runs(capsys):
    for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(code, {})
    assert capsys.readouterr().out.count("Interval(value=") == 2

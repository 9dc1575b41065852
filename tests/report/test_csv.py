"""Results as CSV: what is written can be reported on again, beside runs that are still there."""

import shutil

import pytest

from utds import report
from utds.errors import DataError
from utds.report import findings, table, text

MAIN, OTHER = "walker-walk/medium", ("walker-run/replay",)
HEAD = "domain,task,kind,source,algorithm,seed,steps,final_return\n"


def saved(tmp_path, found, name="results.csv"):
    path = tmp_path / name
    path.write_text(table.to_csv(found), encoding="utf-8")
    return path


def test_a_report_of_a_csv_says_what_the_runs_said(benchmark_tree, tmp_path):
    found = report.study([benchmark_tree])
    again = report.study([saved(tmp_path, found)])
    assert list(again.outcomes) == list(found.outcomes)
    for key, outcome in found.outcomes.items():
        assert again.outcomes[key].curves == pytest.approx(outcome.curves, rel=1e-4)
        assert again.outcomes[key].commands == outcome.commands
    assert [line.values for line in findings.ablations(again)] == [line.values for line in findings.ablations(found)]
    assert findings.gain(again, "utds").gain == pytest.approx(findings.gain(found, "utds").gain, rel=1e-3)
    assert text.title(again, findings.gain(again, "utds")) == text.title(found, findings.gain(found, "utds"))
    assert "<html" in report.page.render(again)
    assert table.to_csv(again).splitlines()[0] == table.to_csv(found).splitlines()[0]


def test_runs_that_are_gone_stand_beside_those_that_are_there(tmp_path, write_run):
    """Own data alone and sharing on two machines: neither tells what sharing brings, both together do."""
    write_run(tmp_path / "here" / "alone", MAIN, (), "utds", (40, 42, 41))
    write_run(tmp_path / "there" / "shared", MAIN, OTHER, "utds", (60, 62, 61))
    path = saved(tmp_path, report.study([tmp_path / "there"]))
    shutil.rmtree(tmp_path / "there")
    found = report.study([tmp_path / "here", path])
    assert findings.gain(found, "utds").gain.value == pytest.approx(20)
    assert not found.warnings


def test_a_run_that_is_in_both_counts_once(tmp_path, write_run):
    write_run(tmp_path / "runs" / "alone", MAIN, (), "utds", (40, 42))
    path = saved(tmp_path, report.study([tmp_path / "runs"]))
    found = report.study([path, tmp_path / "runs"])
    (outcome,) = found.outcomes.values()
    assert sorted(outcome.seeds) == [0, 1]
    assert outcome.results[0].cost and len(outcome.results) == 1  # the folder's, which has more to tell
    assert any("repeats UTDS" in line for line in found.warnings)


def test_runs_of_other_presets_and_fields_stay_apart_beside_a_csv(tmp_path, write_run):
    """Alone each is the usual one of its kind: only the fields themselves tell."""
    write_run(tmp_path / "theirs" / "run", MAIN, OTHER, "utds", (60, 62))
    path = saved(tmp_path, report.study([tmp_path / "theirs"]))
    write_run(tmp_path / "mine" / "run", MAIN, OTHER, "utds", (80, 82), first_seed=2, n_step=1)
    for sources in ([tmp_path / "mine", path], [path, tmp_path / "mine"]):
        found = report.study(sources)
        labels = {label: list(outcome.seeds) for (_, label), outcome in found.outcomes.items()}
        assert labels == {"utds": [2, 3], "utds · n_step=5": [0, 1]} and not found.warnings


def test_a_csv_of_an_earlier_version_does_not_tell_fields(tmp_path, write_run):
    path = tmp_path / "results.csv"
    path.write_text(HEAD + "walker,walker-walk,medium,run,utds,0,10000,500\n")
    assert not report.study([path]).warnings
    write_run(tmp_path / "mine", MAIN, OTHER, "utds", (80, 82), first_seed=2)
    (line,) = report.study([tmp_path / "mine", path]).warnings[1:]
    assert line.startswith("UTDS: 1 runs of a CSV that an earlier version wrote don't tell their preset and fields")


def test_returns_without_a_reference_stay_out_of_the_mean_of_scores(tmp_path):
    """Shares of the first task gain a point; the second has no scores, so its 800 units of return don't count."""
    path = tmp_path / "results.csv"
    lines = [
        f"d,d-{task},k,{source},utds,{seed},20,{returns},{score}"
        for seed in (0, 1)
        for task, source, returns, score in (
            ("a", "own data", 500, 50),
            ("a", "b", 510, 51),
            ("b", "own data", 100 + seed, ""),
            ("b", "a", 900 + seed, ""),
        )
    ]
    path.write_text(HEAD.replace("\n", ",final_score\n") + "\n".join(lines) + "\n")
    found = report.study([path])
    gain = findings.gain(found, "utds")
    assert gain.settings == 1 and gain.gain.value == pytest.approx(1)
    assert "+1.0 points" in text.title(found, gain) and "+800.0" in text.to_markdown(found)  # listed beside its own
    page = report.page.render(found)
    assert "d-b" not in page.partition('id="gains"')[2].partition('id="bars"')[0]


def test_a_run_in_returns_is_not_held_against_one_in_scores(tmp_path):
    """Of one task: a file of scores and one that lacks them. CQL's runs are compared, UTDS's are listed alone."""
    path = tmp_path / "results.csv"
    rows = ("own data,utds,0,20,500,50", "b,utds,0,20,900,", "own data,cql,0,20,500,50", "b,cql,0,20,600,60")
    other = "d,d-b,k,own data,cql,0,20,500,50\n"
    path.write_text(HEAD.replace("\n", ",final_score\n") + "".join(f"d,d-a,k,{row}\n" for row in rows) + other)
    found = report.study([path])
    assert findings.gain(found, "utds") is None and findings.gain(found, "cql").gain.value == pytest.approx(10)
    together = findings.aggregates(found, "final", findings.EVERYTHING)
    assert {row.algorithm for row in together.rows} == {"cql"} and "850" not in text.to_markdown(found)
    assert "850" not in report.page.render(found)


def test_runs_of_two_people_under_one_path(tmp_path):
    """And of one file that names no run: what isn't of one algorithm and one set of fields is told apart."""
    head = HEAD.replace("\n", ",run,config\n")
    row = 'walker,walker-walk,medium,{source},{name},{seed},5000,{returns},{run},"{{""fields"":{{}}}}"\n'
    for number, name in enumerate(("utds", "cql")):
        rows = [
            row.format(source=source, name=name, seed=0, returns=500, run=run)
            for source, run in (("own data", "runs/a"), ("run", "runs/b"))
        ]
        (tmp_path / f"{number}.csv").write_text(head + "".join(rows))
    found = report.study([tmp_path / "0.csv", tmp_path / "1.csv"])
    assert found.algorithms == ("utds", "cql") and len(found.outcomes) == 4
    alone = [row.format(source="own data", name=name, seed=0, returns=500, run="") for name in ("utds", "cql")]
    (tmp_path / "empty.csv").write_text(head + "".join(alone))
    assert report.study([tmp_path / "empty.csv"]).algorithms == ("utds", "cql")


def test_labels_stay_and_other_numbers_of_steps_stay_apart(tmp_path):
    path = tmp_path / "results.csv"
    lines = (
        "walker,walker-walk,medium,own data,utds,0,5000,500",
        "walker,walker-walk,medium,own data,utds · n_step=1,0,5000,400",
        'walker,walker-walk,medium,own data,"utds · beta_ood=1.0, 700 steps",0,5000,300',
        "walker,walker-walk,medium,own data,cql,0,700,200",
        "walker,walker-walk,expert,own data,cql,0,5000,200",
    )
    path.write_text(HEAD + "\n".join(lines) + "\n")
    roles = {label: outcome.role for (_, label), outcome in report.study([path]).outcomes.items()}
    assert [line for line in report.study([path]).warnings if "β2" in line] == [
        "UTDS · beta_ood=1.0: 1 runs of another β2, read from a CSV, are listed but not compared"
    ]
    assert roles == {
        "utds": "figure",
        "utds · n_step=1": "figure",
        "utds · beta_ood=1.0": "apart",
        "cql · 700 steps": "apart",
        "cql": "figure",
    }


def test_a_file_without_evaluations_has_the_last_one(tmp_path):
    """As reports of earlier versions wrote them; walker-walk scores 0 at 32 and 100 at 971."""
    path = tmp_path / "results.csv"
    path.write_text(HEAD + "walker,walker-walk,medium,own data,utds,0,5000,501.5\n")
    found = report.study([path])
    (outcome,) = found.outcomes.values()
    assert outcome.commands == [] and "<html" in report.page.render(found)
    path.write_text(HEAD + "walker,walker-walk,medium,own data,utds,0,1234567,501.5\n")
    assert ",1234567:501.5:50," in table.to_csv(report.study([path]))  # every digit of the step
    assert outcome.steps.tolist() == [5000] and outcome.final.tolist() == pytest.approx([50])


def test_a_file_that_a_spreadsheet_saved(tmp_path):
    """With the mark that Excel begins UTF-8 with, Windows' line ends, and no number for the recorded data."""
    path = tmp_path / "results.csv"
    head = HEAD.replace("\n", ",recorded_return,recorded_best_tenth\r\n")
    text = f"\ufeff{head}walker,walker-walk,medium,own data,utds,0,5000,501.5,NaN,\r\n"
    path.write_bytes(text.encode())
    found = report.study([path])
    (outcome,) = found.outcomes.values()
    assert outcome.final.tolist() == pytest.approx([50]) and found.recorded(outcome.setting) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "lacks the column domain"),
        (HEAD, "has no results in it"),
        ("a,b\n1,2\n", "lacks the column domain"),
        (HEAD + "walker,walker-walk,medium,own data,utds,0,5000,high\n", "line 2: could not convert"),
        (HEAD + "walker,walker-walk,medium,own data,utds,0,5000,nan\n", "line 2: the evaluations must be numbers"),
        (HEAD + "walker,walker-walk,medium\n", "line 2: the row is cut short"),
        (HEAD + '"walker', "unexpected end of data"),
        ('"a"b,c\n1,2\n', "is no table of results: its first line is no CSV: ',' expected after"),
        ("a" * 140_000 + "\n", "is no table of results: its first line is no CSV: field larger than"),
        (HEAD.replace("\n", ",evaluations\n") + "w,w-a,m,own data,utds,0,50,1, \n", "line 2: the evaluations must be"),
        (HEAD.replace("\n", ",config\n") + "w,w-a,m,own data,utds,0,50,1," + "[" * 99_999 + "\n", "line 2: maximum"),
        (HEAD.replace("\n", ",config\n") + "w,w-a,m,own data,utds,0,50,1,fast\n", "line 2: Expecting value"),
        (HEAD.replace("\n", ",config\n") + "w,w-a,m,own data,utds,0,50,1,[]\n", "line 2: config: the whole is"),
        (HEAD.replace("\n", ",evaluations\n") + "w,w-a,m,own data,utds,0,50,1,10:1 20\n", "line 2"),
        (HEAD.replace("\n", ",evaluations\n") + "w,w-a,m,own data,utds,0,50,1,10:1\n", "rise to the last one"),
        (HEAD.replace("\n", ",evaluations\n") + "w,w-a,m,own data,utds,0,50,1,50:1 50:3\n", "rise to the last one"),
    ],
)
def test_damaged_files_are_named_with_the_line(tmp_path, content, message):
    path = tmp_path / "results.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        report.study([path])
    assert str(path) in str(caught.value)

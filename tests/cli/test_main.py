"""The command line as a user meets it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from utds.cli import _app, main
from utds.version import __version__


def utds(*args):
    return subprocess.run([sys.executable, "-m", "utds", *args], capture_output=True, text=True, timeout=120)


def test_version_and_help():
    done = utds("--version")
    assert (done.returncode, done.stdout) == (0, f"utds {__version__}\n")
    done = utds("--help")
    assert done.returncode == 0 and "domains" in done.stdout


def test_help_fits_80_columns_and_shows_no_none(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def said(*words):
        with pytest.raises(SystemExit) as exit:
            main([*words, "--help"])
        assert not exit.value.code
        return capsys.readouterr().out

    assert "Example:" not in said() and len(said().splitlines()) < 45  # a screen of commands, each in a line or two
    assert "Example: utds data list" not in said("data")
    for name, command in _app()._subcommands.items():
        group = getattr(command.target, "_subcommands", None)
        for words in [(name, inner) for inner in group] if group else [(name,)]:
            lines = said(*words).splitlines()
            examples = [line for line in lines if line.startswith("Example: ")]  # on one line each, to be copied
            assert examples and all(line.count("Example:") == 1 for line in examples), words
            wide = [line for line in lines if len(line) > 80 and line not in examples]
            assert [line for line in wide if not line.startswith("usage: ")] == [], words
            assert not any(none in "".join(lines) for none in ("{None}", "default: None", "default: )", "[STR")), words


@pytest.mark.parametrize("args", [("--version",), ("domains",), ("train", "--help")])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_the_output_does_not_have_are_replaced(args, encoding):
    environment = os.environ | {"PYTHONIOENCODING": encoding, "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-m", "utds", *args], capture_output=True, env=environment, timeout=120)
    assert done.returncode == 0 and done.stderr == b"" and done.stdout.decode(encoding)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
@pytest.mark.parametrize("option", ["--version", "--help"])
def test_a_full_disk_and_a_closed_pipe_are_no_traceback(option):
    command = [sys.executable, "-m", "utds", option]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr == "utds: error: No space left on device; check the path\n"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(writer)
    assert done.stderr == ""


def test_a_wrong_command_exits_with_2_and_no_traceback():
    done = utds("domainz")
    assert done.returncode == 2 and "Traceback" not in done.stderr and "domainz" in done.stderr


@pytest.mark.parametrize("columns", [80, 60])
def test_domains_table_has_every_task_whole(capsys, monkeypatch, columns):
    """On 80 columns every id is on one line; on fewer it is folded, never cut."""
    monkeypatch.setenv("COLUMNS", str(columns))
    main(["domains"])
    out = capsys.readouterr().out
    assert "…" not in out and max(map(len, out.splitlines())) <= columns
    for task in ("walker-flip", "quadruped-roll-fast", "jaco-reach-bottom-right", "pointmass-reach-bottom-right"):
        found = [row.split()[0] for row in out.splitlines() if row.strip()]
        assert task in (found if columns == 80 else "".join(found))


def test_the_guide_shows_the_domains_as_they_are_printed():
    """Also a return of random actions that was measured to be 0. In a process of its own: tests register domains."""
    command = [sys.executable, "-m", "utds", "domains"]
    found = subprocess.run(command, env=os.environ | {"COLUMNS": "100"}, capture_output=True, text=True, check=True)
    printed = [line.strip() for line in found.stdout.splitlines() if line.strip()]
    guide = Path(__file__).parents[2] / "docs" / "guides" / "domains.md"
    block = guide.read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
    assert printed == [line.strip() for line in block.splitlines() if line.strip()]


def test_errors_are_one_line_on_stderr(monkeypatch, capsys):
    monkeypatch.setenv("UTDS_DOMAINS", "/no/such/robot.py")
    import utds.domains

    utds.domains._load_own.cache_clear()
    with pytest.raises(SystemExit) as exit:
        main(["domains"])
    captured = capsys.readouterr()
    assert exit.value.code == 2
    assert captured.err == "utds: error: UTDS_DOMAINS: /no/such/robot.py is no Python file; check its path\n"

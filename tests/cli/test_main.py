"""The command line as a user meets it."""

import subprocess
import sys

import pytest

from utds.cli import main
from utds.version import __version__


def utds(*args):
    return subprocess.run([sys.executable, "-m", "utds", *args], capture_output=True, text=True, timeout=120)


def test_version_and_help():
    done = utds("--version")
    assert (done.returncode, done.stdout) == (0, f"utds {__version__}\n")
    done = utds("--help")
    assert done.returncode == 0 and "domains" in done.stdout


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


def test_errors_are_one_line_on_stderr(monkeypatch, capsys):
    monkeypatch.setenv("UTDS_DOMAINS", "/no/such/robot.py")
    import utds.domains

    utds.domains.registry._load_own.cache_clear()
    with pytest.raises(SystemExit) as exit:
        main(["domains"])
    captured = capsys.readouterr()
    assert exit.value.code == 2
    assert captured.err == "utds: error: UTDS_DOMAINS names '/no/such/robot.py', which is no Python file\n"

"""What the parser says of a mistake, in one line."""

import pytest

from utds.cli import main


@pytest.mark.parametrize("columns", ["80", "20"])
def test_a_mistake_is_one_line_with_the_command_whose_help_tells_more(refused, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    see = "; see: utds train --help"
    assert refused("train") == f"missing: ID{see}"
    assert refused("train", "a/b", "--steps", "x") == f"--steps: 'x' is no whole number{see}"
    assert refused("train", "a/b", "--seeds=1e3") == f"--seeds: '1e3' is no whole number{see}"
    assert refused("train", "a/b", "--steps") == f"--steps needs a value{see}"
    assert refused("train", "a/b", "--resum") == (f"there is no option or command --resum; did you mean --resume?{see}")
    assert refused("benchmark", "run", "smoke", "--resume") == (
        "there is no option or command --resume; see: utds benchmark run --help"
    )
    assert refused("theory", "--out=a", "--size=x") == "--size: 'x' is no number; see: utds theory --help"
    assert refused("uncertainty") == "missing: RUN|toy, --out PATH; see: utds uncertainty --help"
    assert refused("quickstart", "--domain=jaco") == (
        "--domain: 'jaco' is none of 'pointmass', 'walker'; see: utds quickstart --help"
    )
    assert refused("data") == (
        "a command is missing: one of list, show, verify, import, export, generate; see: utds data --help"
    )
    assert refused("domainz") == "there is no command 'domainz'; did you mean domains?; see: utds --help"
    assert refused("trian", "a/b") == "there is no command 'trian'; did you mean train?; see: utds --help"
    assert refused("runs", "x") == ("there is no command 'x'; choose from list, compare, remove; see: utds runs --help")
    assert refused("--hepl") == "there is no option or command --hepl; see: utds --help"


def test_empty_endless_and_unprintable_values_are_refused_before_anything_else(refused):
    assert refused("train", "") == "there is an empty argument after train; give it a value, or leave it out"
    assert refused("train", "a/b", "--out=").startswith("there is an empty argument after --out")
    assert refused("train", "a/b", "--out", " ").startswith("there is an empty argument after --out")
    assert "'a\\nb' has characters that can't be printed" in refused("train", "a\nb")
    assert "'\\udcff' has characters" in refused("train", "\udcff")  # a byte that is no UTF-8
    assert refused("train", "a/b", "--steps=-1") == "--steps=-1 must lie between 0 and 2147483647"
    assert refused("theory", "--out=a", "--size=nan") == "--size=nan must be a finite number"


def test_what_a_command_raises_is_not_taken_for_a_mistake_in_its_options(monkeypatch):
    def broken() -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("utds.domains.names", broken)
    with pytest.raises(ValueError, match="a bug"):
        main(["domains"])


def test_memory_and_the_operating_system_are_one_line(monkeypatch, refused):
    for error, line in (
        (MemoryError("No 1 TiB"), "not enough memory (No 1 TiB); ask for less at a time"),
        (OSError(36, "File name too long", "xx"), "xx: File name too long; check the path"),
        (
            UnicodeEncodeError("utf-8", "runs/b\udcffd", 6, 7, "surrogates not allowed"),
            "there are bytes that are no utf-8 text at the end of 'runs/b\\udcff'; rename that file",
        ),
    ):

        def fail(error=error) -> None:
            raise error

        monkeypatch.setattr("utds.domains.names", fail)
        assert refused("domains") == line


def test_the_help_of_collect_says_what_its_options_are_of(capsys):
    with pytest.raises(SystemExit):
        main(["collect", "--help"])
    out = capsys.readouterr().out
    assert "td3 options" in out and "config" not in out

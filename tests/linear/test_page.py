"""The page: self-contained, well-formed, the same for the same seed; and `utds theory`."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from utds.cli import main
from utds.cli.analysis import theory
from utds.errors import ConfigError
from utds.linear import page
from utds.linear.statements import lemma2, pseudocounts

SMALL = 0.04


class Reader(HTMLParser):
    """Collects ids and addresses, and checks that tags close in order."""

    VOID = frozenset({"meta", "link", "br", "img", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self._note(attrs)

    def handle_startendtag(self, tag, attrs):
        self._note(attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def _note(self, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href"):
                self.addresses.append(value)


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> SimpleNamespace:
    """The whole page, once; drawing is what takes the time."""
    out, shares = tmp_path_factory.mktemp("theory"), []
    reports = page.write(out, seed=3, size=SMALL, advance=shares.append)
    return SimpleNamespace(out=out, reports=reports, shares=shares)


@pytest.fixture
def out(written) -> Path:
    return written.out


@pytest.fixture
def short(monkeypatch):
    """Two statements are enough to see what a run does beyond its statements."""
    monkeypatch.setattr(page, "STATEMENTS", (pseudocounts, lemma2))


def read(out: Path) -> tuple[str, Reader]:
    text = (out / "index.html").read_text()
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return text, reader


def test_the_page_needs_nothing_from_elsewhere(out):
    text, reader = read(out)
    assert all(address.startswith("#") for address in reader.addresses)
    assert "<script" not in text
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_ids_are_unique_and_every_reference_finds_one(out):
    text, reader = read(out)
    assert len(reader.ids) == len(set(reader.ids))
    targets = {address[1:] for address in reader.addresses} | set(re.findall(r"url\(#([^)]+)\)", text))
    assert targets
    assert targets <= set(reader.ids)


def test_importing_does_not_load_matplotlib():
    code = "import sys, utds.linear.page; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0


def test_seven_sections_with_figures_in_the_pages_own_colours(out):
    text, _ = read(out)
    assert text.count("<section>") == 7
    assert text.count("<svg ") == text.count("<figcaption>") == len(list(out.glob("*.svg"))) == 15
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text
    drawings = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert all("currentColor" in drawing and "#1f2328" not in drawing for drawing in drawings)


def test_figures_are_small_well_formed_files_on_white(out):
    for path in out.glob("*.svg"):
        root = ET.parse(path).getroot()
        assert root.tag.endswith("svg")
        assert path.stat().st_size < 100_000
        assert "fill: #ffffff" in path.read_text()


def test_every_requirement_holds_even_at_a_small_size(written):
    required = [fact for report in written.reports for fact in report.facts if fact.holds is not None]
    assert len(required) == 19
    assert all(fact.holds for fact in required), [fact for fact in required if not fact.holds]


def test_shares_of_progress_sum_to_the_number_of_statements(written):
    assert sum(written.shares) == pytest.approx(len(page.STATEMENTS))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(short, tmp_path):
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        page.write(tmp_path / name, seed=seed, size=SMALL)
    for path in (tmp_path / "one").iterdir():
        assert (tmp_path / "same" / path.name).read_bytes() == path.read_bytes()
        assert (tmp_path / "other" / path.name).read_bytes() != path.read_bytes()


def test_the_command_prints_what_holds(short, tmp_path, capsys):
    theory(tmp_path / "new" / "folder", seed=0, size=SMALL)
    printed = capsys.readouterr().out
    assert "4 of 4 requirements hold" in printed
    assert (tmp_path / "new" / "folder" / "index.html").is_file()


def test_the_command_fails_when_a_requirement_does(short, tmp_path, capsys, monkeypatch):
    run = pseudocounts.run
    monkeypatch.setattr(pseudocounts, "run", lambda *a: replace(found := run(*a), visits=found.visits + 1))
    with pytest.raises(SystemExit) as exit:
        main(["theory", "--out", str(tmp_path), "--size", str(SMALL)])
    printed = capsys.readouterr().out
    assert exit.value.code == 1 and printed.count("✗") == 1 and "3 of 4 requirements hold" in printed
    assert (tmp_path / "index.html").is_file()


@pytest.mark.parametrize(("arguments", "message"), [({"size": 0}, "size is 0"), ({"seed": -1}, "seed is -1")])
def test_wrong_options_are_refused(tmp_path, arguments, message):
    with pytest.raises(ConfigError, match=message):
        page.write(tmp_path, **arguments)


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ConfigError, match="is a file"):
        page.write(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"

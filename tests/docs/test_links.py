"""Links between pages, and from pages to files of the repository, lead somewhere; so do their anchors."""

import re
from pathlib import Path

import pytest

import utds
from utds import algorithms

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = {"reference/cli.md", "reference/metrics.md"}  # their anchors are checked where they are built: `make docs`


def prose(page):
    """A page without its code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(page):
    """Of its headings, as both MkDocs and GitHub derive them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken(page):
    for link, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]+))?\)", prose(page)):
        target = (page.parent / link).resolve() if link else page
        if not target.exists():
            yield f"{page.relative_to(ROOT)} links to {link}, which is not there"
        elif anchor and target.suffix == ".md" and str(target.relative_to(ROOT / "docs")) not in GENERATED:
            if anchor not in anchors(target):
                yield f"{page.relative_to(ROOT)} links to {link}#{anchor}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    assert list(broken(page)) == []


def test_a_link_to_nothing_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# One title\n\n[x](b.md) [y](a.md#one-title) [z](#two) `[code](c.md)`\n")
    found = list(broken(tmp_path / "docs" / "a.md"))
    assert found == ["docs/a.md links to b.md, which is not there", "docs/a.md links to #two: no such heading"]


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"([\w./-]+\.md)$", navigation, flags=re.MULTILINE)
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    pages -= {f"algorithms/{name}.md" for name in algorithms.entries()}  # docs/hooks/site.py adds them
    pages |= {f"notebooks/{notebook.stem}.md" for notebook in (ROOT / "docs" / "notebooks").glob("*.ipynb")}
    assert sorted(pages) == sorted(set(listed) - {"project/contributing.md", "project/changelog.md"})
    assert len(listed) == len(set(listed))


def test_every_public_name_is_in_the_python_reference():
    pages = (ROOT / "docs" / "reference" / "python").glob("*.md")
    shown = re.findall(
        r"^::: utds\.(\w+)$", "\n".join(page.read_text(encoding="utf-8") for page in pages), re.MULTILINE
    )
    classes = {found.kind.__name__ for found in algorithms.shipped()}  # docs/hooks/site.py adds them
    assert sorted(shown) == sorted({*utds.__all__, "errors"} - {"Error", "__version__"} - classes)

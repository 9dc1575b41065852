"""One table of every metric that the algorithms log, from the glossaries on the algorithms' own pages."""

import re
from pathlib import Path

_ROW = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.MULTILINE)
_POINTER = re.compile(r"\]\(([\w-]+)\.md#metrics\)")


def glossary(page: Path) -> dict[str, str]:
    """What a page's section *Metrics* explains; a page without a table of its own points to another's."""
    text = page.read_text(encoding="utf-8").partition("## Metrics")[2]
    rows = dict(_ROW.findall(text))
    pointer = _POINTER.search(text)
    if rows or pointer is None:
        return rows
    return glossary(page.with_name(f"{pointer[1]}.md"))


def markdown(folder: Path, link: str) -> str:
    """A row for each metric and meaning, with the algorithms that log it; `link` leads to their folder."""
    rows: dict[tuple[str, str], list[str]] = {}
    for page in sorted(folder.glob("*.md")):
        for metric, meaning in glossary(page).items():
            meaning = re.sub(r"\]\(([\w-]+\.md)", rf"]({link}/\1", meaning)
            rows.setdefault((metric, meaning), []).append(f"[{page.stem}]({link}/{page.name}#metrics)")
    lines = [f"| `{metric}` | {meaning} | {', '.join(names)} |" for (metric, meaning), names in sorted(rows.items())]
    return "\n".join(["| metric | meaning | logged by |", "|---|---|---|", *lines])

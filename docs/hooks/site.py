"""What MkDocs does beyond Markdown: generated references, and links that leave docs/.

Pages link to code as files of the repository (`../../src/utds/data/pool.py`), so that the links also work where the
Markdown is read in place. On the site each linked file becomes a page of its own under source/. A link to nothing is a
warning, which `mkdocs build --strict` makes an error.
"""

import logging
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]

import cli_reference  # noqa: E402
import metrics_reference  # noqa: E402
import notebook_pages  # noqa: E402

log = logging.getLogger("mkdocs.hooks.site")

# Pages of the repository's root that the site shows too, and where.
ROOT_PAGES = {"CHANGELOG.md": "project/changelog.md", "CONTRIBUTING.md": "project/contributing.md"}
LANGUAGES = {".py": "python", ".toml": "toml", ".md": "markdown", ".yml": "yaml"}
_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Put the algorithms' pages into the navigation, in the order of their table: a new one needs no entry there."""
    table = (ROOT / "docs" / "algorithms" / "README.md").read_text(encoding="utf-8")
    pages = dict.fromkeys(re.findall(r"\[`[\w-]+`\]\(([\w-]+\.md)\)", table))
    (section,) = (entry["Algorithms"] for entry in config["nav"] if "Algorithms" in entry)
    section.extend(f"algorithms/{page}" for page in pages)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root, of notebooks, and one for each source file that any page links to."""
    for name, uri in ROOT_PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook_pages.markdown(path)))
    linked = {
        target
        for file in files.documentation_pages()
        for target in map(site_uri, repository_links(file.src_uri, file.content_string))
        if target and target.startswith("source/")
    }
    for uri in sorted(linked):
        files.append(File.generated(config, uri, content=source_page(uri), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    uri = page.file.src_uri
    if uri == "reference/cli.md":
        markdown = markdown.replace("<!-- commands -->", cli_reference.markdown())
    if uri == "reference/python/algorithms.md":
        markdown = markdown.replace("<!-- algorithms -->", algorithm_reference())
    if uri == "reference/metrics.md":
        markdown = markdown.replace(
            "<!-- metrics -->", metrics_reference.markdown(ROOT / "docs/algorithms", "../algorithms")
        )
    return markdown if uri.startswith("source/") else relinked(uri, markdown)


def algorithm_reference() -> str:
    """The fields of every algorithm that is a public name, as mkdocstrings reads them."""
    names = (ROOT / "src" / "utds" / "__init__.py").read_text(encoding="utf-8")
    imports = re.findall(r"from utds\.algorithms\.\w+ import ([\w, ]+)", names)
    classes = [name for found in imports for name in found.split(", ")]
    return "\n\n".join(f"::: utds.{name}\n    options:\n      members: []" for name in classes)


def repository_links(uri: str, markdown: str) -> list[str]:
    """Where a page's links lead, as paths from the repository's root."""
    return [_path(uri, link) for _, link, _, _ in _LINK.findall(_FENCE.sub("", markdown))]


def relinked(uri: str, markdown: str) -> str:
    """The page with its links to files of the repository turned into links to the site's pages."""

    def replace(found: re.Match[str]) -> str:
        target = site_uri(path := _path(uri, found[2]))
        if target is None:
            log.warning(f"{uri} links to {found[2]}: there is no file {path}")
            return found[0]
        return f"{found[1]}{posixpath.relpath(target, posixpath.dirname(uri))}{found[3] or ''}{found[4]}"

    parts = re.split(f"({_FENCE.pattern})", markdown, flags=_FENCE.flags)  # every second one is a fenced block
    return "".join(part if index % 2 else _LINK.sub(replace, part) for index, part in enumerate(parts))


def site_uri(path: str) -> str | None:
    """The site's file for a file of the repository; None if there is no such file."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path in (f"docs/{uri}" for uri in ROOT_PAGES.values()):
        return path.removeprefix("docs/")
    if not (ROOT / path).is_file():
        return None
    if path.endswith(".ipynb"):
        return path.removeprefix("docs/").removesuffix(".ipynb") + ".md"
    inside = path.startswith("docs/") and not path.endswith((".py", ".toml"))
    return path.removeprefix("docs/") if inside else f"source/{path}.md"


def source_page(uri: str) -> str:
    path = uri.removeprefix("source/").removesuffix(".md")
    text = (ROOT / path).read_text(encoding="utf-8")
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"---\ntitle: {path}\nsearch: {{exclude: true}}\n---\n\n# {path}\n\n````{language}\n{text}````\n"


def _path(uri: str, link: str) -> str:
    """A link on a page, as a path from the repository's root."""
    home = next((name for name, page in ROOT_PAGES.items() if page == uri), f"docs/{uri}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(home), link))

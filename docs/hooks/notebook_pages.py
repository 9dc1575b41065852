"""Notebooks as pages: text and code as they are written, outputs as they were stored with them."""

import json
from pathlib import Path
from typing import Any


def markdown(path: Path) -> str:
    """The page of a notebook, with a link to the file itself."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    first, *rest = [_cell(cell) for cell in notebook["cells"]]
    link = f'<a href="../{path.name}" download>Download the notebook</a>'  # the page is a folder beside it
    return "\n\n".join([first, link, *rest]) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *filter(None, map(_output, cell["outputs"]))])


def _output(output: dict[str, Any]) -> str:
    """What a reader sees of it; errors are left to the tests, which run every notebook."""
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    if "text/html" in data:
        html = "".join(data["text/html"]).strip()
        return f'<div class="output">{" ".join(html.splitlines())}</div>' if html else ""
    text = "".join(output.get("text") or data.get("text/plain", ""))
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""

"""The site's page of a notebook: text, code, and outputs as a reader of the notebook sees them."""

import json
from pathlib import Path

HOOK = Path(__file__).parents[2] / "docs" / "hooks" / "notebook_pages.py"


def test_a_page_of_a_notebook(load_file, tmp_path):
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["a line\n"]},
        {"output_type": "execute_result", "data": {"text/plain": ["x"], "text/html": ["<b>\n", "x</b>"]}},
        {"output_type": "display_data", "data": {"text/html": [""], "text/plain": ["a bar that is gone"]}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text"]},
        {"cell_type": "code", "source": ["x = 1\n", "x"], "outputs": outputs},
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    assert load_file(HOOK).markdown(tmp_path / "n.ipynb") == (
        '# Title\nText\n\n<a href="../n.ipynb" download>Download the notebook</a>\n\n```python\nx = 1\nx\n```\n\n'
        '```text\na line\n```\n\n<div class="output"><b> x</b></div>\n'
    )

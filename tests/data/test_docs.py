"""The code in docs/guides/data.md runs as it stands."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "data.md"


def test_the_snippets_run():
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(snippets) == 5
    exec("\n".join(snippets), {"__name__": "docs"})

"""Every algorithm has its page, and the page's glossary lists what the algorithm logs: no more, no less."""

import re
from pathlib import Path

import jax
import pytest

from utds.algorithms import Spec, entries, make, resolve

PAGES = Path(__file__).parents[2] / "docs" / "algorithms"


def glossary(name: str) -> set[str]:
    """The metrics that a page explains, itself or by pointing to another page's glossary."""
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8").split("## Metrics")[1]
    named = set(re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE))
    return named or glossary(re.search(r"\]\((\w+)\.md#metrics\)", text)[1])


@pytest.mark.parametrize("name", entries())
def test_the_glossary_lists_the_metrics(name, batch):
    metrics = set()
    for preset in entries()[name].presets:
        algo = resolve(make(name, preset, batch_size=16), 100)
        found = jax.eval_shape(lambda key, a=algo: a.update(a.init(key, Spec(3, 2)), batch, key)[1], jax.random.key(0))
        metrics |= set(found)
    assert glossary(name) == metrics


@pytest.mark.parametrize("name", entries())
def test_the_table_of_algorithms_names_it(name):
    """The site's navigation is made of this table."""
    assert f"[`{name}`]({name}.md)" in (PAGES / "README.md").read_text(encoding="utf-8")


def test_there_are_no_other_pages():
    assert {path.stem for path in PAGES.glob("*.md")} - {"README"} == set(entries())

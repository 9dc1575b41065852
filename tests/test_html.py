"""What objects show of themselves in a notebook: well-formed, escaped, with the numbers that they hold."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from utds import adviser, algorithms, html, training
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.evaluation import Evaluation

EVIL = '<script>alert("x")</script>&'


def parsed(shown):
    """The HTML as a tree: every tag is closed, every ampersand escaped."""
    tree = ElementTree.fromstring(shown.replace("&nbsp;", " ").replace("<br>", "<br/>"))
    assert tree.find(".//script") is None
    return tree, "|".join(text.strip() for text in tree.itertext() if text.strip())


def dataset(task="main", episodes=3):
    random = np.random.default_rng(0)
    size = 10 * episodes
    return Dataset.from_arrays(
        random.normal(size=(size + episodes, 3)), random.uniform(-1, 1, (size, 2)), np.full(size, 0.5),
        lengths=np.full(episodes, 10), task=task,
    )  # fmt: skip


def test_a_dataset():
    tree, words = parsed(dataset(EVIL)._repr_html_())
    assert "30 in 3 episodes" in words and "5 ± 0, from 5 to 5" in words and EVIL in words
    assert len(tree.findall(".//svg")) == 2


def test_a_pool_shows_returns_of_its_own_task():
    other = dataset("other", 4)
    pool = share(dataset(), other, rewards="zero")
    assert [list(returns) for returns in pool.returns()] == [[5.0] * 3, [0.0] * 4]
    tree, words = parsed(pool._repr_html_())
    rows = [[cell.text for cell in row][:5] for row in tree.findall(".//tbody/tr")]
    assert rows == [["main", "main", "30", "3", "5 ± 0"], ["other", "shared", "40", "4", "0 ± 0"]]
    assert "zero" in words


def test_an_evaluation():
    _, words = parsed(Evaluation(EVIL, (1.0, 3.0), 0.0, 4.0)._repr_html_())
    assert "return|2|" in words and "normalised score|50.0" in words and "2 episodes" in words
    assert "interval" not in parsed(Evaluation("t", (1.0,))._repr_html_())[1]


def test_a_run(tmp_path):
    returns = iter([1.0, 2.0, 3.0, 4.0])
    run = training.train(
        share(dataset()), algorithms.make("bc", width=8, batch_size=8), seeds=2, steps=4, eval_every=2,
        evaluate=lambda act: {"return": next(returns)}, out=tmp_path / "a&b",
    )  # fmt: skip
    tree, words = parsed(run._repr_html_())
    rows = [[cell.text for cell in row] for row in tree.findall(".//tbody/tr")]
    assert rows == [["0", "3"], ["1", "4"]] and "seed 1" in words and "a&b" in words
    assert len(tree.findall(".//polyline")) == 2
    (tmp_path / "a&b" / "evaluations.csv").unlink()
    assert "bc" in parsed(run._repr_html_())[1]  # nothing to draw yet


def test_advice():
    random = np.random.default_rng(0)
    sets = [
        Dataset.from_arrays(
            random.normal(size=(404, 3)), random.uniform(-1, 1, (400, 2)), random.uniform(size=400),
            lengths=np.full(4, 100), task="main", id=name,
        )
        for name in ("main/a", "main/b")
    ]  # fmt: skip
    found = adviser.advise(sets[0], sets[1:], trust_dynamics=True)
    tree, words = parsed(found._repr_html_())
    assert found.recommendation in words and tree.find(".//tbody/tr/td").text == "main/b"


@pytest.mark.parametrize("values", [[], [np.nan], [1.0], [2.0, 2.0], [1.0, np.nan, 3.0], [1.0, 1.0 + 2e-16]])
def test_charts_of_anything(values):
    shown = [
        html.sparkline(values, EVIL),
        html.histogram(values, EVIL),
        html.curves({EVIL: (values, values)}, "x", "y"),
    ]
    parsed(html.block("t", *shown))
    assert "nan" not in "".join(map(str, shown)) and "<script>" not in "".join(map(str, shown))


def test_a_line_through_very_many_values_stays_small():
    shown = str(html.sparkline(np.arange(100_000.0) % 7, "returns"))
    assert len(shown) < 10_000 and "returns: 0 to 6" in shown

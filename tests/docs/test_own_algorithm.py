"""The algorithm of docs/guides/own-algorithm.md trains, logs its metric and is found again."""

import re
from pathlib import Path

import numpy as np
import pytest

import utds
from utds.algorithms import registry

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "own-algorithm.md"


def test_the_example_trains(tmp_path):
    definition, use = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    random = np.random.default_rng(0)
    data = utds.Dataset.from_arrays(
        random.normal(size=(51, 3)), random.uniform(-1, 1, (50, 2)), random.uniform(size=50), lengths=[50], task="own"
    )
    scope = {"__name__": "docs", "pool": utds.share(data)}
    try:
        exec(definition, scope)
        small = use.replace("effort=0.3", "effort=0.3, width=8, batch_size=16").replace("2_000", "20, log_every=10")
        exec(small.replace("runs/gentle", str(tmp_path / "run")), scope)
        again = utds.Run(tmp_path / "run")
        assert again.algorithm == scope["GentleTD3"](effort=0.3, width=8, batch_size=16)
        acted = again.act(data.observations[:-1])  # the data is small: its mean squared action is nearly the batches'
        assert again.metrics[-1]["effort"] == pytest.approx(np.mean(acted**2), rel=0.5)
    finally:
        registry._ENTRIES.pop("gentle-td3", None)

"""A small pool."""

import numpy as np
import pytest

from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.data.pool import Pool


@pytest.fixture(scope="session")
def pool() -> Pool:
    random = np.random.default_rng(0)
    main = Dataset.from_arrays(
        random.normal(size=(204, 3)),
        random.uniform(-1, 1, (200, 2)),
        random.uniform(size=200),
        lengths=np.full(4, 50),
        task="main",
    )
    return share(main)

"""Fields without sense are refused in one line, and metrics of a delayed policy are means over its own steps."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from utds.algorithms import CDS, TD3, UTDS, Spec
from utds.algorithms.base import Mean
from utds.data.pool import Batch
from utds.errors import ConfigError


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (UTDS, {"beta_ood_decay": 0.0}),
        (UTDS, {"beta_ood_decay": 1.5}),
        (UTDS, {"beta_ood": -1.0}),
        (TD3, {"smoothing": -0.1}),
        (TD3, {"discount": 1.0}),
        (CDS, {"shared_share": 1.5}),
    ],
)
def test_numbers_out_of_range_are_refused(kind, fields):
    ((name, value),) = fields.items()
    with pytest.raises(ConfigError, match=rf"{name}.*{value}"):
        kind(**fields)


class WithMean(TD3):
    """TD3 whose policy loss logs a mean over some rows."""

    def policy_loss(self, actor: Any, state: Any, batch: Batch) -> tuple[jax.Array, dict[str, Any]]:
        loss, metrics = super().policy_loss(actor, state, batch)
        return loss, metrics | {"rewarded": Mean.of(batch.rewards, batch.rewards > 0)}


def test_a_delayed_policys_mean_over_rows_stays_a_mean():
    algorithm = WithMean(width=4, layers=1, batch_size=4, policy_delay=3)
    state = algorithm.init(jax.random.key(0), Spec(2, 1))
    rows = jnp.asarray([0.0, 0.0, 4.0, 8.0])
    zeros = jnp.zeros((4, 2))
    batch = Batch(zeros, jnp.zeros((4, 1)), rows, jnp.zeros(4), zeros, jnp.ones(4), jnp.zeros(4, jnp.int32))
    logged = []
    for step in range(1, 4):
        found = algorithm.delayed_policy_step(state._replace(step=jnp.int32(step)), batch)[1]["rewarded"]
        assert isinstance(found, Mean)
        logged.append(found)
    np.testing.assert_allclose([float(mean.weight) for mean in logged], [1.5, 0, 0])  # half of the rows, three times
    over_steps = Mean(sum(mean.total for mean in logged) / 3, sum(mean.weight for mean in logged) / 3)
    assert over_steps.value() == pytest.approx(6.0) and float(over_steps.weight) == pytest.approx(0.5)

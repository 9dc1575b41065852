"""Fields out of their limits are refused in one line, and metrics of a delayed policy are means over its own steps."""

import re
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from utds.algorithms import CDS, TD3, TD3BC, UTDS, Spec, resolve
from utds.algorithms.base import Mean
from utds.algorithms.fields import NonNegative, Steps, interval
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
        (TD3BC, {"alpha": -1.0}),
        (UTDS, {"bc_narrow": -1.0}),
        (UTDS, {"num_critics": 0}),  # declared anew by UTDS, limited by ActorCritic
        (UTDS, {"width": 100_001}),
    ],
)
def test_numbers_out_of_range_are_refused(kind, fields):
    ((name, value),) = fields.items()
    with pytest.raises(ConfigError, match=rf"{name}.*{value}"):
        kind(**fields)


@dataclass(frozen=True)
class Own(TD3):
    """An algorithm of one's own: a limited field, one that says nothing, and a default of its own."""

    effort: NonNegative = 0.1
    offset: int = 0
    betas: tuple[float, ...] = (0.9, 0.99)
    mode: Literal["near", "far"] = "near"
    warm_up: Steps = "10%"
    tau: float = 0.01


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"effort": -0.1}, "effort=-0.1 must be at least 0"),
        ({"effort": "much"}, "effort='much' must be a number"),
        ({"offset": 1.5}, "offset=1.5 must be a whole number"),
        ({"mode": 3}, "mode=3 is unknown; use near or far"),
        ({"warm_up": 1.5}, 'warm_up=1.5 must be a whole number, or a share of the run such as "50%"'),
        ({"warm_up": 0}, "warm_up=0 must be at least 1"),
        ({"tau": 2.0}, "tau=2.0 must lie in (0, 1]"),
    ],
)
def test_the_fields_of_an_own_algorithm_are_checked_as_they_are_declared(fields, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Own(**fields)


def test_a_field_without_limits_takes_what_its_type_takes():
    own = Own(offset=-3, betas=(0.5,))
    assert own.offset == -3 and own.betas == (0.5,)
    assert resolve(own, 500).warm_up == 50 and Own().warm_up == "10%"


@pytest.mark.parametrize(
    ("written", "inside", "outside"),
    [("[0, 1)", (0, 0.5), (-0.1, 1)), ("(0, 1]", (0.5, 1), (0, 1.1)), ("(0, 1)", (0.5,), (0, 1))],
)
def test_intervals_are_read_as_they_are_written(written, inside, outside):
    holds = interval(written).holds
    assert all(map(holds, inside)) and not any(map(holds, outside))


def test_a_type_that_only_a_checker_knows_is_refused_in_one_line():
    @dataclass(frozen=True)
    class Unread(TD3):
        extra: "NowhereDefined" = 1  # noqa: F821

    with pytest.raises(ConfigError, match="a field of Unread has a type that can't be read: name 'NowhereDefined'"):
        Unread()


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

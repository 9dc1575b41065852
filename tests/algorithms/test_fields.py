"""Fields out of their limits are refused in one line, and metrics of a delayed policy are means over its own steps."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from utds import algorithms
from utds.algorithms import BC, CDS, TD3, TD3BC, UTDS, Preset, Spec, registry, resolve
from utds.algorithms.base import Mean, NonNegative, Steps, interval
from utds.data.pool import Batch
from utds.errors import ConfigError
from utds.evaluation.fqe import FQE
from utds.training import train


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


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (BC, {"anneal_steps": 99_999_999_999}),
        (TD3, {"policy_delay": 99_999_999_999}),
        (TD3, {"target_delay": 3_000_000_000}),
        (UTDS, {"bc_steps": 99_999_999_999}),
        (UTDS, {"microbatch": 10**20}),
        (UTDS, {"floor": -(10**20)}),
        (BC, {"actor_lr": 10**20}),
        (FQE, {"steps": 99_999_999_999}),
    ],
)
def test_whole_numbers_of_more_than_32_bits_are_refused(kind, fields):
    ((name, value),) = fields.items()
    said = (
        f"{name}={value} must lie between -2147483647 and 2147483647, or be written as 1e20 where it needn't be whole"
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}$"):
        kind(**fields)
    assert kind(**{name: 2**31 - 1})


def test_more_candidates_than_32_bits_can_count_are_refused():
    with pytest.raises(ConfigError, match="candidates=1000000000 for each of 512 kept are over 2147483647; give fewer"):
        CDS(candidates=10**9)


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
        ({"offset": np.int64(2)}, f"offset={np.int64(2)!r} must be a whole number of Python's own: give 2"),
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


def test_a_field_with_several_values_survives_the_run_directory(make_pool, monkeypatch, tmp_path):
    """JSON and TOML know only lists, which can't be compiled for."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    registry.register_algorithm("own", Own, presets={"fast": Preset({"betas": [0.5, 0.9]}, steps=7)})
    pool, tiny = make_pool(np.zeros((8, 2)), np.zeros((8, 1)), np.ones(8)), {"width": 4, "layers": 1, "batch_size": 4}
    own = algorithms.make("own", betas=[0.8, 0.9], **tiny)
    assert own.betas == (0.8, 0.9) == algorithms.make("own", betas=(0.8, 0.9)).betas
    assert algorithms.make("own").betas == (0.5, 0.9) and algorithms.default_steps(Own(betas=(0.5, 0.9)), pool) == 7
    for steps, resume in ((2, False), (4, True)):
        run = train(pool, own, steps=steps, out=tmp_path, evaluate=None, eval_every=2, resume=resume)
    assert run.algorithm == own and run.metrics[-1]["step"] == 4
    assert algorithms.nearest_preset("own", run.config["algorithm"]["fields"])[1] == {"betas": [0.8, 0.9], **tiny}


def test_a_declaration_that_python_takes_without_a_word_is_refused(monkeypatch):
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))

    class Bare(TD3):
        tau: float = 0.01

    @dataclass(frozen=True)
    class Untyped(TD3):
        tau = 0.01

    @dataclass
    class Thawed:
        tau: float = 0.01

    assert Bare().tau == Untyped().tau == TD3().tau != 0.01  # which nobody expects
    for kind, message in (
        (Bare, "Bare declares tau: write @dataclass(frozen=True) above the class"),
        (Untyped, "Untyped sets tau=0.01 without a type, which changes no default: write tau: float = 0.01"),
        (Thawed, "Thawed must be a frozen dataclass: its fields are its hyper-parameters"),
    ):
        with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
            registry.register_algorithm("mine", kind)

    @dataclass(frozen=True, slots=True)
    class Slotted(TD3):
        rounds: ClassVar[int] = 3
        tau: float = 0.01

    class Quiet(Slotted):
        rounds: ClassVar[int] = 4

    for kind in (Slotted, Quiet, WithMean):
        assert registry.register_algorithm("mine-" + kind.__name__, kind) is kind


def test_a_preset_with_an_unknown_field_is_refused(monkeypatch):
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    with pytest.raises(ConfigError, match="there is no field of own called 'efort'; did you mean effort"):
        registry.register_algorithm("own", Own, presets={"fast": Preset({"efort": 1.0})})


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

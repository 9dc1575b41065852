"""What the critics promise against what the data holds, on rewards summed by hand; policies of evaluations."""

import contextlib
from dataclasses import dataclass, replace

import numpy as np
import pytest

from utds import algorithms
from utds.algorithms import registry
from utds.algorithms.td3 import TD3
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.errors import ConfigError
from utds.training import train
from utds.training.loop import Watch, episode_values, start_observations
from utds.training.run import Run


@pytest.fixture(scope="module")
def pool():
    """Two own episodes with returns 1 + 2γ + 4γ² and 8 + 16γ, and a shared one labelled 3 at each of its two steps."""
    own = Dataset.from_arrays(
        np.arange(7.0)[:, None], np.zeros((5, 1)), [1.0, 2, 4, 8, 16],
        terminations=[False, False, True, False, False], lengths=[3, 2], task="main",
    )  # fmt: skip
    other = Dataset.from_arrays(np.arange(3.0)[:, None], np.zeros((2, 1)), [0.0, 0], lengths=[2], task="other")
    return share(own, other, rewards=lambda o, a, n: np.full(len(o), 3.0))


def test_discounted_returns_and_start_states(pool):
    """The first episode truly ends. The others were cut after two steps: 1 − γ² of what they would be worth."""
    returns, supported = episode_values(pool, 0.5)
    np.testing.assert_allclose(returns, [1 + 1 + 1, 8 + 8, 3 + 1.5])
    np.testing.assert_allclose(supported, [3, 16 / 0.75, 4.5 / 0.75])
    np.testing.assert_allclose(episode_values(pool, 1.0)[1], [7, 24, 6])  # no discount, no end of it
    np.testing.assert_array_equal(start_observations(pool)[:, 0], [0, 4])


def test_warns_in_words_once_values_leave_the_data_behind(pool):
    watch = Watch(algorithms.make("td3", "paper", discount=0.5), pool)
    assert watch.best_return == 16 and watch.supported == pytest.approx(16 / 0.75)
    assert watch.warning({"q_start": 31.0}) is None
    words = watch.warning({"q_start": 64.0})
    assert "promise 64 from the start states, 3.0 times what the best" in words and "raise" not in words
    words = Watch(algorithms.make("utds"), pool).warning({"q_start": 1e9})
    assert words.endswith("raise bc_weight_end or beta_in or beta_ood")
    assert Watch(algorithms.make("bc", "paper"), pool).row(None) == {}


def test_runs_log_it_and_keep_the_policies_of_their_evaluations(pool, tmp_path, capsys):
    seen = []

    def evaluate(act):
        seen.append(float(act(np.ones((1, 1)))[0, 0]))
        return {"return": seen[-1]}

    algorithm = algorithms.make("td3", "paper", width=8, layers=1, batch_size=4, actor_lr=0.1)
    run = train(pool, algorithm, steps=6, eval_every=2, log_every=3, evaluate=evaluate, out=tmp_path / "run")
    assert {"q_start", "best_return"} <= set(run.metrics[-1])
    assert "step 6 of 6, return" in capsys.readouterr().err
    again = Run(run.path)
    (run.path / "policies" / "0-best.safetensors").write_bytes(b"")  # a copy that somebody made
    assert again.kept_steps == (2, 4, 6)
    for step, action in zip(again.kept_steps, seen, strict=True):
        acted = algorithm.act(again.policy(step=step), np.ones((1, 1), np.float32))
        assert float(acted[0, 0]) == pytest.approx(action, abs=1e-6)
    assert len(set(seen)) == 3
    with pytest.raises(ConfigError, match="kept no policy of seed 0 at step 5; it has steps 2, 4, 6"):
        again.policy(step=5)


def test_what_an_algorithm_has_against_a_pool_is_said_before_there_is_a_run(pool, tmp_path):
    """The corrected retry then begins in the same folder."""
    weighted = share(*pool.info.datasets, rewards="zero", weights="returns")
    for sampling, refused in (("episodes", True), ("pool", False)):
        algorithm = algorithms.make("utds", width=8, layers=1, batch_size=4, sampling=sampling)
        with pytest.raises(ConfigError, match="set sampling='pool'") if refused else contextlib.nullcontext():
            train(weighted, algorithm, steps=2, out=tmp_path / "run", evaluate=None)
        assert (tmp_path / "run").exists() != refused


@dataclass(frozen=True)
class _OtherCritic(TD3):
    def init(self, key, spec):
        state = super().init(key, spec)
        return state._replace(critic={"layers": state.critic})


@dataclass(frozen=True)
class _StateCritic(TD3):
    def init(self, key, spec):
        return super().init(key, replace(spec, action_size=0))


@pytest.mark.parametrize("kind", [_OtherCritic, _StateCritic])
def test_a_critic_of_another_kind_is_refused_in_a_line(kind, pool, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    algorithms.register_algorithm("other-critic", kind)
    with pytest.raises(ConfigError, match=f"`critic` in the state of {kind.__name__} is no ensemble"):
        train(pool, kind(width=8, layers=1, batch_size=4), steps=2, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@dataclass(frozen=True)
class _Undiscounted(TD3):
    discount: float = 1.0

    def __post_init__(self):
        pass


def test_an_algorithm_without_a_discount_trains(pool, tmp_path, monkeypatch):
    """Its values have no largest possible size, so that none is too large."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    algorithms.register_algorithm("undiscounted", _Undiscounted)
    run = train(pool, _Undiscounted(width=8, layers=1, batch_size=4), steps=2, out=tmp_path / "run")
    assert run.finished and run.metrics[-1]["best_return"] == 24

"""What every algorithm must do alike: repeat itself bit by bit, alone or beside other seeds, interrupted or not."""

import signal
from dataclasses import replace

import numpy as np
import pytest

from utds import serialization
from utds.algorithms import entries
from utds.algorithms.base import annealed_lr
from utds.training import train
from utds.training.run import Run

OPTIONS = {"steps": 24, "log_every": 8, "eval_every": 8, "checkpoint_every": 10}
PROBE = np.array([[0.1, -0.5], [0.9, 0.3]])
FILES = ("checkpoint.safetensors", "policy-0.safetensors", "policy-1.safetensors", "metrics.csv", "evaluations.csv")


def first_action(act):
    return {"return": float(act(PROBE)[0, 0])}


@pytest.fixture(scope="module", params=entries())
def reference(request, tiny, problems, tmp_path_factory) -> Run:
    """Seeds 0 and 1, never interrupted."""
    out = tmp_path_factory.mktemp("run") / request.param
    return train(problems["constant"], tiny(request.param), seeds=2, evaluate=first_action, out=out, **OPTIONS)


def assert_same(run, reference, names=FILES):
    for name in names:
        assert (run.path / name).read_bytes() == (reference.path / name).read_bytes(), name


def test_same_seeds_give_the_same_bits(reference, problems, tmp_path):
    pool, algorithm = problems["constant"], reference.algorithm
    assert_same(train(pool, algorithm, seeds=2, evaluate=first_action, out=tmp_path, **OPTIONS), reference)
    first, second = (reference.path / f"policy-{seed}.safetensors" for seed in (0, 1))
    assert first.read_bytes() != second.read_bytes()


def test_a_seed_alone_equals_the_seed_beside_others(reference, problems, tmp_path):
    run = train(problems["constant"], reference.algorithm, seeds=[1], evaluate=first_action, out=tmp_path, **OPTIONS)
    assert_same(run, reference, ["policy-1.safetensors"])
    for name in ("metrics", "evaluations"):
        assert getattr(run, name) == [row for row in getattr(reference, name) if row["seed"] == 1]


def test_a_signal_saves_and_resuming_changes_nothing(reference, problems, tmp_path):
    def evaluate(act):
        if not (tmp_path / "evaluations.csv").exists():  # at step 8
            signal.raise_signal(signal.SIGTERM)
        return first_action(act)

    with pytest.raises(SystemExit, match="143"):
        train(problems["constant"], reference.algorithm, seeds=2, evaluate=evaluate, out=tmp_path, **OPTIONS)
    assert serialization.read(tmp_path / "checkpoint.safetensors")[1] == {"step": 8, "seeds": [0, 1]}
    resumed = train(
        problems["constant"], reference.algorithm, seeds=2, evaluate=evaluate, out=tmp_path, resume=True, **OPTIONS
    )
    assert_same(resumed, reference)


def test_a_saved_policy_acts_as_it_did(reference):
    for row in reference.evaluations:
        if row["step"] == 24:
            reopened = Run(reference.path)
            assert float(reopened.act(PROBE, row["seed"])[0, 0]) == row["return"]
    actions = reference.act(np.random.default_rng(0).normal(size=(50, 2)) * 100)
    assert actions.shape == (50, 1) and np.all(np.abs(actions) <= 1)


@pytest.mark.parametrize("name", ["utds", "td3", "bc"])  # an ensemble, a branch, and neither
def test_vmapped_seeds_equal_single_seeds(name, tiny, problems, tmp_path):
    """Up to rounding: a CPU's batched products add in another order."""
    alone = train(problems["constant"], tiny(name), seeds=2, out=tmp_path / "turns", **OPTIONS)
    together = train(problems["constant"], tiny(name), seeds=2, out=tmp_path / "vmap", vmap=True, **OPTIONS)
    for seed in (0, 1):
        np.testing.assert_allclose(together.act(PROBE, seed), alone.act(PROBE, seed), atol=2e-4)
    for mine, theirs in zip(together.metrics, alone.metrics, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", entries())
def test_annealed_rates_end_at_nothing(name, tiny, problems, tmp_path):
    """Steps after the last annealed one change no policy, the steps before it do."""
    algorithm = replace(tiny(name), anneal_steps=8)
    for steps in (4, 8, 24):
        train(problems["constant"], algorithm, steps=steps, evaluate=first_action, out=tmp_path / f"{steps}")
    half, end, after = (Run(tmp_path / f"{steps}").act(PROBE) for steps in (4, 8, 24))
    assert np.array_equal(end, after) and not np.array_equal(half, end)
    assert annealed_lr(0.4, np.array(2), 8) == pytest.approx(0.3) and annealed_lr(0.4, np.array(2), None) == 0.4

"""The training loop and the run directory: what is refused, what stops a run, what is written."""

import json
import os
import signal
from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest

from utds import serialization
from utds.algorithms import BC, TD3
from utds.errors import ConfigError, DataError, TrainingError
from utds.training import Trainer, run_files, train
from utds.training.run import Run, summary

QUICK = BC(width=4, layers=1, batch_size=8)
CRITICS = TD3(width=4, layers=1, batch_size=8, policy_delay=1)


def test_a_run_directory_tells_what_was_done(pool, tmp_path):
    def evaluate(act):
        return {"return": float(np.sum(act(np.zeros((2, 3))))), "standard_error": float("nan")}

    run = train(
        pool, QUICK, seeds=[4, 2], steps=25, log_every=10, eval_every=20, evaluate=evaluate, out=tmp_path / "run"
    )
    assert [(row["step"], row["seed"]) for row in run.metrics] == [(s, seed) for s in (10, 20, 25) for seed in (4, 2)]
    assert [(row["step"], row["seed"]) for row in run.evaluations] == [(20, 4), (20, 2), (25, 4), (25, 2)]
    last = [row["return"] for row in run.evaluations[2:]]
    assert run.result["evaluation"]["return"] == {
        "mean": pytest.approx(np.mean(last)),
        "standard_error": pytest.approx(np.std(last, ddof=1) / np.sqrt(2)),
        "seeds": last,
    }
    assert run.result["evaluation"]["standard_error"]["mean"] is None  # NaN isn't JSON
    assert run.finished and Run(run.path).algorithm == QUICK
    provenance = json.loads((run.path / "provenance.json").read_text())
    (source,) = provenance["sources"]
    returns = np.sort(pool.info.datasets[0].returns)  # of four episodes: the best tenth is the best one
    assert source.pop("recorded") == {"mean": pytest.approx(returns.mean()), "best_tenth": returns[-1], "episodes": 4}
    assert source == {"id": "main", "digest": pool.info.digests[0], "transitions": 200}
    assert provenance["seeds"] == [4, 2] and set(provenance["versions"]) >= {"utds", "jax", "optax", "numpy"}


def test_logged_means_are_means_over_the_steps_since(pool, tmp_path):
    fine = train(pool, QUICK, steps=6, log_every=1, out=tmp_path / "fine").metrics
    coarse = train(pool, QUICK, steps=6, log_every=3, out=tmp_path / "coarse").metrics
    for i, row in enumerate(coarse):
        expected = np.mean([r["actor_loss"] for r in fine[3 * i : 3 * i + 3]])
        assert row["actor_loss"] == pytest.approx(expected, rel=1e-5)


def test_resuming_needs_the_same_run_and_may_go_further(pool, tmp_path):
    first = train(pool, QUICK, steps=10, out=tmp_path)
    with pytest.raises(ConfigError, match="already holds a run"):
        train(pool, QUICK, steps=10, out=tmp_path)
    with pytest.raises(ConfigError, match=r"algorithm\.fields\.batch_size=8, not 16"):
        train(pool, replace(QUICK, batch_size=16), steps=10, out=tmp_path, resume=True)
    with pytest.raises(ConfigError, match=r"seeds=\[0\], not \[0, 1\]"):
        train(pool, QUICK, seeds=2, steps=10, out=tmp_path, resume=True)
    other = replace(pool, info=replace(pool.info, digests=("0" * 64,)))
    with pytest.raises(ConfigError, match="digest"):
        train(other, QUICK, steps=10, out=tmp_path, resume=True)
    assert train(pool, QUICK, steps=10, out=tmp_path, resume=True).result == first.result  # nothing left to do
    longer = train(pool, QUICK, steps=20, out=tmp_path, resume=True)
    straight = train(pool, QUICK, steps=20, out=tmp_path / "straight")
    assert longer.act(np.ones((3, 3))).tobytes() == straight.act(np.ones((3, 3))).tobytes()


def test_resuming_never_takes_a_run_back(pool, tmp_path):
    """Asked for fewer steps than it has done, it would count as unfinished for ever."""
    train(pool, QUICK, steps=10, out=tmp_path)
    with pytest.raises(ConfigError, match="has reached step 10; resume it with steps=10 or more"):
        train(pool, QUICK, steps=6, out=tmp_path, resume=True)
    assert Run(tmp_path).finished
    (tmp_path / "result.json").unlink()  # as if it had been interrupted just before
    assert train(pool, QUICK, out=tmp_path, resume=True).config["steps"] == 10  # what it was asked for, no preset's


@pytest.mark.parametrize("finished", [0, 10])
def test_resuming_never_goes_back_before_what_a_signal_saved(pool, tmp_path, finished):
    """A signal saves between two rows of metrics.csv: its step would count as that of a policy of fewer steps."""

    def interrupted(act):
        os.kill(os.getpid(), signal.SIGINT)
        return {"return": 0.0}

    if finished:
        train(pool, QUICK, steps=finished, out=tmp_path)
    options = {"eval_every": 20, "log_every": 50, "checkpoint_every": 50, "out": tmp_path, "resume": True}
    with pytest.raises(KeyboardInterrupt):
        train(pool, QUICK, steps=50, evaluate=interrupted, **options)
    assert run_files.last_step(tmp_path) == finished
    with pytest.raises(ConfigError, match="has reached step 20; resume it with steps=20 or more"):
        train(pool, QUICK, steps=10, **options)
    assert Run(tmp_path).config["steps"] == 50 and not Run(tmp_path).finished
    assert train(pool, QUICK, steps=20, **options).finished


def test_resuming_keeps_what_the_run_was_begun_with(pool, tmp_path, monkeypatch):
    begun = train(pool, QUICK, steps=5, out=tmp_path).path / "provenance.json"
    first = json.loads(begun.read_text())
    train(pool, QUICK, steps=6, out=tmp_path, resume=True)
    assert json.loads(begun.read_text()) == first
    monkeypatch.setattr("utds.training.run.__version__", "99")
    train(pool, QUICK, steps=7, out=tmp_path, resume=True)
    train(pool, QUICK, steps=8, out=tmp_path, resume=True)
    after = json.loads(begun.read_text())
    assert [versions["utds"] for versions in after.pop("resumed")] == ["99"] and after == first


def test_acting_reads_a_policy_once_and_again_when_it_has_changed(pool, tmp_path, monkeypatch):
    run = train(pool, QUICK, steps=5, out=tmp_path)
    reads = []
    monkeypatch.setattr(
        "utds.serialization.read", lambda path, *more, read=serialization.read: reads.append(path) or read(path, *more)
    )
    first = [run.act(np.ones((2, 3))).tobytes() for _ in range(5)]
    assert len(set(first)) == 1 and len(reads) == 1
    for wrong in (np.ones(3), np.ones((2, 4))):
        with pytest.raises(ConfigError, match=r"observations of shape \(n, 3\)"):
            run.act(wrong)
    train(pool, QUICK, steps=200, out=tmp_path, resume=True)
    reads.clear()
    assert run.act(np.ones((2, 3))).tobytes() != first[0] and len(reads) == 1


def test_a_run_that_lost_its_last_rows_writes_them_again(pool, tmp_path):
    """As after a kill between a log and a checkpoint, in the middle of a line."""

    class Killed(Exception):
        pass

    def evaluate(act):
        if (tmp_path / "run" / "metrics.csv").read_text().count("\n") > 3:
            with open(tmp_path / "run" / "metrics.csv", "a") as file:
                file.write("40,0,0.1")
            raise Killed
        return {"return": 0.0}

    options = {"steps": 40, "log_every": 10, "eval_every": 10, "checkpoint_every": 20}
    with pytest.raises(Killed):
        train(pool, QUICK, evaluate=evaluate, out=tmp_path / "run", **options)
    resumed = train(pool, QUICK, evaluate=lambda act: {"return": 0.0}, out=tmp_path / "run", resume=True, **options)
    whole = train(pool, QUICK, evaluate=lambda act: {"return": 0.0}, out=tmp_path / "whole", **options)
    for name in ("metrics.csv", "evaluations.csv", "checkpoint.safetensors"):
        assert (resumed.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_policies_kept_after_the_last_checkpoint_are_forgotten(pool, tmp_path):
    """Resumed with other evaluations, a run would offer them as its own."""

    class Killed(Exception):
        pass

    def evaluate(act):
        if (tmp_path / "policies" / "0-30.safetensors").exists():
            raise Killed
        return {"return": 0.0}

    with pytest.raises(Killed):
        train(pool, QUICK, steps=40, evaluate=evaluate, eval_every=10, checkpoint_every=20, out=tmp_path)
    own = tmp_path / "policies" / "best-30.safetensors"
    own.write_bytes(b"")
    resumed = train(pool, QUICK, steps=40, evaluate=None, eval_every=20, out=tmp_path, resume=True)
    assert resumed.kept_steps == (10, 20, 40) and own.exists()


def test_a_diverging_q_stops_the_run_and_keeps_the_checkpoint(pool, tmp_path):
    options = {"log_every": 5, "checkpoint_every": 10, "out": tmp_path}
    train(pool, CRITICS, steps=10, **options)
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    with pytest.raises(TrainingError, match=r"\|Q\| reached .* by step 1\d \(seed 0\).*checkpoint is kept"):
        train(pool, CRITICS, steps=20, divergence=1e-9, resume=True, **options)
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before


def test_a_nan_stops_the_run(pool, tmp_path):
    with pytest.raises(TrainingError, match=r"actor_loss became (nan|inf)"):
        train(pool, replace(QUICK, actor_lr=3e38), steps=50, out=tmp_path)
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_a_nan_of_the_last_step_stops_it_too(pool, tmp_path):
    """Its loss is finite: that of the weights before, as where the gradient of a root at 0 breaks them."""
    trainer = Trainer(train(pool, QUICK, steps=2, out=tmp_path), pool, None)
    (whole,), step = trainer.begin()
    trainer.guard((whole,), step)
    broken = whole._replace(state=whole.state._replace(actor=jax.tree.map(lambda x: x * np.nan, whole.state.actor)))
    with pytest.raises(TrainingError, match=r"weights are no longer finite by step 2 \(seed 0\)"):
        trainer.guard((broken,), step)


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0}, {"seeds": []}, {"seeds": [1, 1]}, {"log_every": 0}, {"seeds": [-1]}, {"steps": 1e6},
        {"seeds": [0.0]}, {"eval_every": 2.5}, {"divergence": float("inf")}, {"divergence": -1},
        {"episodes": 2.5}, {"episodes": 0}, {"episodes": 10**30},
    ],
)  # fmt: skip
def test_senseless_options_are_refused(options, pool, tmp_path):
    with pytest.raises(ConfigError, match=next(iter(options))):
        train(pool, QUICK, out=tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_are_numbers(pool, tmp_path, monkeypatch):
    run = train(pool, QUICK, seeds=np.arange(1, 3), steps=np.int64(2), out=tmp_path / "which")
    assert (run.config["seeds"], run.config["steps"]) == ([1, 2], 2)
    assert train(pool, QUICK, seeds=np.int64(2), steps=2, out=tmp_path / "how-many").seeds == (0, 1)
    monkeypatch.setattr("utds.evaluation.evaluator", lambda task, episodes: lambda act: {"return": 0.0})
    assert train(pool, QUICK, steps=2, episodes=np.int64(2), out=tmp_path / "episodes").config["episodes"] == 2


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (3.0, r"`evaluate` returned 3\.0; let it return names"),
        ({"return": None}, "`evaluate` returned .*None}; let it return names and numbers"),
        ({"return": 1.0, "step": 7}, "returned a number called 'step', which each row has already"),
    ],
)
def test_an_evaluation_that_no_row_can_hold_is_refused(pool, tmp_path, returned, message):
    with pytest.raises(ConfigError, match=message):
        train(pool, QUICK, steps=2, evaluate=lambda act: returned, out=tmp_path)


def test_numbers_that_an_evaluation_returns_only_later_are_kept(pool, tmp_path):
    """The second seed's at once, the first one's from the second evaluation on; one name is no text."""
    returned = iter([{"return": 1.0}, {"success, all": 0.5}, {"return": 2.0, 7: 0.25}, {"return": 3.0}])
    run = train(pool, QUICK, seeds=2, steps=20, eval_every=10, evaluate=lambda act: next(returned), out=tmp_path)
    assert run.evaluations == [
        {"step": 10, "seed": 0, "return": 1.0},
        {"step": 10, "seed": 1, "success, all": 0.5},
        {"step": 20, "seed": 0, "return": 2.0, "7": 0.25},
        {"step": 20, "seed": 1, "return": 3.0},
    ]
    lines = (tmp_path / "evaluations.csv").read_text().splitlines()
    assert lines[:2] == ['step,seed,return,"success, all",7', "10,0,1.0,,"]
    longer = train(pool, QUICK, seeds=2, steps=30, evaluate=lambda act: {7: 1.0}, out=tmp_path, resume=True)
    assert (tmp_path / "evaluations.csv").read_text().splitlines()[: len(lines)] == lines
    assert longer.evaluations[-1] == {"step": 30, "seed": 1, "7": 1.0}


@pytest.mark.parametrize("evaluate", ["automatic", 3])
def test_what_cannot_evaluate_is_refused_before_there_is_a_run(pool, tmp_path, evaluate):
    with pytest.raises(ConfigError, match='must be "auto", None or a function'):
        train(pool, QUICK, steps=2, evaluate=evaluate, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_broken_or_foreign_folder_is_named(pool, tmp_path):
    with pytest.raises(ConfigError, match="holds no run"):
        Run(tmp_path / "nothing")
    run = train(pool, QUICK, steps=1, out=tmp_path)
    with pytest.raises(ConfigError, match=r"no policy of seed 7 \(seeds: \[0\]\)"):
        run.act(np.zeros((1, 3)), seed=7)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=r"checkpoint\.safetensors"):
        train(pool, QUICK, steps=2, out=tmp_path, resume=True)


def test_an_environment_with_observations_of_several_parts_is_to_be_flattened(pool, tmp_path):
    class Parts(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict({"arm": gymnasium.spaces.Box(-1, 1, (3,))})
        action_space = gymnasium.spaces.Box(-1, 1, (2,))

    run = train(pool, QUICK, steps=1, out=tmp_path)
    with pytest.raises(ConfigError, match=r"Parts has observations of several parts; wrap it in .*FlattenObservation"):
        run.evaluate(env=Parts())


def test_summary_of_seeds():
    assert summary([1.0, 3.0]) == {"mean": 2.0, "standard_error": pytest.approx(1.0), "seeds": [1.0, 3.0]}
    assert summary([5.0])["standard_error"] is None

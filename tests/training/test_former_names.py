"""Run directories of earlier versions, whose fields and arrays had other names, load and go on."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from utds.algorithms import CQL, TD3BC, UTDS, Algorithm, entries, from_config
from utds.training import Run, train

TD3BC_FIELDS = {
    "members": 2, "width": 4, "layers": 1, "layer_norm": False, "normalise": True, "batch": 8, "microbatch": 256,
    "discount": 0.99, "tau": 0.005, "actor_rate": 0.001, "critic_rate": 0.002, "anneal_steps": None, "smoothing": 0.2,
    "smoothing_clip": 0.5, "saturation": 0.01, "policy_delay": 2, "floor": None, "greed": 2.0,
}  # fmt: skip
CQL_FIELDS = {
    "members": 3, "width": 4, "layers": 1, "layer_norm": False, "normalise": True, "batch": 8, "microbatch": 16,
    "discount": 0.99, "tau": 0.005, "actor_rate": 0.001, "critic_rate": 0.002, "anneal_steps": None, "weight": 1.5,
    "actions": 2, "entropy": -1.0,
}  # fmt: skip
OLD = {
    "td3bc": (
        TD3BC_FIELDS,
        TD3BC(width=4, layers=1, batch_size=8, actor_lr=1e-3, critic_lr=2e-3, pretanh_l2=0.01, alpha=2.0),
    ),
    "cql": (
        CQL_FIELDS,
        CQL(
            num_critics=3, width=4, layers=1, layer_norm=False, batch_size=8, actor_lr=1e-3, critic_lr=2e-3,
            cql_alpha=1.5, num_actions=2, target_entropy=-1.0,
        ),
    ),
}  # fmt: skip


EVERY = {"log_every": 5, "eval_every": 5, "checkpoint_every": 5}  # their defaults follow from the steps


def rename(path: Path) -> None:
    """Give the arrays of a file the names that they had."""
    with safetensors.safe_open(path, framework="numpy") as file:
        arrays, meta = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()
    old = {k.replace("normalizer.", "normal.").replace("_opt_state.", "_moments."): v for k, v in arrays.items()}
    assert set(old) != set(arrays)
    safetensors.numpy.save_file(old, path, metadata=meta)


@pytest.mark.parametrize("name", OLD)
def test_an_old_run_loads_and_goes_on(name, pool, tmp_path):
    fields, algorithm = OLD[name]
    whole = train(pool, algorithm, steps=20, out=tmp_path / "whole", **EVERY)
    old = train(pool, algorithm, steps=10, out=tmp_path / "old", **EVERY).path
    observations = np.ones((2, 3), np.float32)
    before = Run(old).act(observations)
    config = json.loads((old / "config.json").read_text())
    config["algorithm"] = {"name": name, "fields": fields}
    (old / "config.json").write_text(json.dumps(config))
    rename(old / "policy-0.safetensors")
    rename(old / "checkpoint.safetensors")

    run = Run(old)
    assert run.algorithm == algorithm
    assert np.array_equal(run.act(observations), before)
    resumed = train(pool, algorithm, steps=20, out=old, resume=True, **EVERY)
    assert np.array_equal(resumed.act(observations), whole.act(observations))


@pytest.mark.parametrize("name", entries())
def test_no_field_has_a_former_name(name):
    """A former name that came back with another meaning would make old runs load wrongly."""
    made: Algorithm = entries()[name].kind()
    former = {"members", "batch", "actor_rate", "critic_rate", "saturation", "greed", "weight", "actions", "entropy"}
    assert not former & set(vars(made))


def test_former_names_of_an_algorithm_that_others_build_on():
    assert from_config({"name": "utds", "fields": {"members": 7, "batch": 32}}) == UTDS(num_critics=7, batch_size=32)

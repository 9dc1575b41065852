"""A made-up benchmark: run directories in the format that training writes, with known scores."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

TASKS = {
    "walker": ("stand", "walk", "run", "flip"),
    "quadruped": ("jump", "roll-fast", "walk", "run"),
    "jaco": ("reach-top-left", "reach-top-right", "reach-bottom-left", "reach-bottom-right"),
}
LEVEL = {"random": 15, "medium": 45, "medium-replay": 40, "replay": 60, "expert": 85}
EFFECT = {"utds": 12.0, "cql": -15.0, "cds": 3.0, "cds-zero": -2.0}  # of sharing


def run_directory(
    folder: Path, main: str, shared=(), algorithm="utds", scores=(50.0,), steps=10_000, version="0.1.0", reference=True,
    evaluations=10, first_seed=0, **fields,
) -> Path:  # fmt: skip
    """A finished run directory whose seeds end at `scores` on a rising curve."""
    from utds import algorithms

    task, domain = main.partition("/")[0], main.partition("-")[0]
    seeds = list(range(first_seed, first_seed + len(scores)))
    made = algorithms.make(algorithm, preset="fast", **fields)
    sources = [{"id": name, "digest": f"{name}-digest", "transitions": 1000} for name in (main, *shared)]
    config = {
        "algorithm": algorithms.to_config(made), "task": task, "domain": domain, "sources": sources, "rewards": "known",
        "sampling": "transitions", "observation_size": 24, "action_size": 6, "seeds": seeds, "steps": steps,
        "eval_every": steps // evaluations, "log_every": 1000, "checkpoint_every": steps, "divergence": 100.0,
    }  # fmt: skip
    folder.mkdir(parents=True)
    grid = np.linspace(steps / evaluations, steps, evaluations)
    rising = 1 - 0.8 * np.exp(-4 * grid / steps)
    rising /= rising[-1]
    rows, metrics = [], []
    for step, share in zip(grid, rising, strict=True):
        for seed, score in zip(seeds, scores, strict=True):
            row = {"step": int(step), "seed": seed, "return": 10 * score * share, "standard_error": 3.0}
            rows.append(row | ({"score": score * share} if reference else {}))
            if hasattr(made, "beta_ood"):
                gamma = {"uncertainty": 0.3 + 0.5 / share, "uncertainty_own": 0.3 + 0.4 / share}
                metrics.append({"step": int(step), "seed": seed, **gamma} | _shared(shared, share))
    _table(folder / "evaluations.csv", rows)
    _table(folder / "metrics.csv", metrics or [{"step": steps, "seed": seed, "q_mean": 1.0} for seed in seeds])
    result = {"steps": steps, "seeds": seeds, "seconds": 100.0, "timed_steps": steps, "evaluation": {}}
    result |= {"peak_memory_mb": 812.5, "parameters": 420_000}
    provenance = {"versions": {"utds": version}, "sources": sources, "seeds": seeds}
    for name, value in (("config", config), ("provenance", provenance), ("result", result)):
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def write_benchmark(
    root: Path, domains=("walker",), tasks=2, kinds=("medium", "expert"), algorithms=tuple(EFFECT), seeds=3
):
    """Every main task and kind alone, with each other task's replay, and with all of them."""
    rng = np.random.default_rng(0)
    for domain in domains:
        names = [f"{domain}-{task}" for task in TASKS[domain]]
        for main in names[:tasks]:
            others = [f"{name}/replay" for name in names if name != main]
            for kind in kinds:
                for algorithm in algorithms:
                    for shared in ([], *([other] for other in others), others):
                        if shared or algorithm in ("utds", "cql"):
                            helps = (
                                EFFECT[algorithm] * (1 - LEVEL[kind] / 100) * len(shared) ** 0.3 * (0.5 + rng.random())
                            )
                            scores = np.clip(LEVEL[kind] + helps * bool(shared) + rng.normal(0, 3, seeds), 0, 110)
                            source = "-".join(o.partition("/")[0] for o in shared) or "alone"
                            folder = root / domain / f"{main}-{kind}-{source}-{algorithm}"
                            run_directory(folder, f"{main}/{kind}", shared, algorithm, scores.tolist())
    return root


@pytest.fixture
def write_run():
    """`write_run(folder, main, shared, algorithm, scores, …)` makes a run directory."""
    return run_directory


@pytest.fixture(scope="session")
def benchmark_tree(tmp_path_factory):
    """Two walker tasks × two kinds × three sources, alone and all; four algorithms, three seeds; an ablation of β2."""
    root = write_benchmark(tmp_path_factory.mktemp("runs"))
    for value, score in ((0.5, 40.0), (1.0, 70.0), (5.0, 65.0)):
        folder = root / "ablation" / f"beta-{value}"
        run_directory(folder, "walker-walk/medium", ("walker-run/replay",), scores=(score, score + 4), beta_ood=value)
    return root


def _shared(shared, share):
    return {"uncertainty_shared": 0.35 + 0.6 / share if shared else ""}


def _table(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

"""Data: relabelling over dm_control's own loop, loading over numpy's, memory of a pool, weighted draws, imports over
the formats' own libraries, and a learned reward.

The learned reward is measured on stored walker data (`walker-walk/medium-replay` and the other tasks' `replay`) where
it exists under Minari's root; everything else is made here.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from common import BYTES, RATIO, dm_control_environment, fastest, printed_by, require, rounds, table, verdict
from utds import domains
from utds.data import ids, store
from utds.data.dataset import Dataset
from utds.data.formats import d4rl
from utds.data.formats import importing as imports
from utds.data.formats import table as table_file
from utds.data.labelling import Known
from utds.data.pool import Pool
from utds.data.reward_model import LearnedReward
from utds.domains.simulator import Simulator
from utds.errors import DataError

STATES = {"walker": 8_000, "quadruped": 4_000, "jaco": 1_000}
OVER_DM_CONTROL = {"walker": 10, "quadruped": 10, "jaco": 20}  # required
EPISODES, STEPS = 1_000, 1_000  # of the walker dataset that is loaded
CORRELATION = 0.95  # of a learned reward with the truth, required
SOURCES = ("stand", "walk", "run", "flip")  # of the pool whose memory is measured

MEMORY = """
import sys
import jax, numpy as np, tempfile, utds
from common import memory_from_here, peak_memory
from utds.data.dataset import Dataset
small = Dataset.from_arrays(np.zeros((11, 24)), np.zeros((10, 6)), np.zeros(10))
jax.block_until_ready(utds.share(small).columns)  # everything is imported and compiled
before = memory_from_here()
trust, *tasks = sys.argv[1:]
pool = utds.share(*(utds.load(f"walker-{task}/replay") for task in tasks))
jax.block_until_ready(pool.columns)
made = peak_memory() - before
algorithm, out = utds.make_algorithm("utds", "paper"), tempfile.mkdtemp() + "/run"
utds.train(pool, algorithm, steps=3, out=out, evaluate=None, trust_dynamics=trust == "True")
print(made, sum(leaf.nbytes for leaf in jax.tree.leaves(pool.columns)), peak_memory())
"""


def rollout_states(name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """States [count, S] reached by random actions [count, A]."""
    domain, copies = domains.get(name), 10
    simulator = Simulator(domain, copies)
    simulator.reset(0)
    actions = np.random.default_rng(0).uniform(-1, 1, (count // copies, copies, domain.action_size))
    states = []
    for step in actions:
        simulator.step(step)
        states.append(simulator.physics())
    return np.concatenate(states), actions.reshape(count, -1)


def dm_control_loop(name: str, states: np.ndarray):
    """One state after the other, as dm_control's users relabel: set it, then ask the task for its reward."""
    env = dm_control_environment(name)
    env.reset()

    def run() -> list[float]:
        rewards = []
        for state in states:
            with env.physics.reset_context():
                env.physics.set_state(state)
            rewards.append(env.task.get_reward(env.physics))
        return rewards

    return run


def relabelling() -> None:
    rows = []
    for name, count in STATES.items():
        domain = domains.get(name)
        states, actions = rollout_states(name, count)
        loop = dm_control_loop(name, states)
        times = fastest({"ours": lambda: domain.rewards(states, actions), "dm_control": loop}, repeats=3)  # noqa: B023
        over, error = times["dm_control"] / times["ours"], "–"
        require(f"relabelling {name}, over dm_control", over, least=OVER_DM_CONTROL[name], noise=RATIO)
        if name != "jaco":  # its reach task draws another target at every reset
            ours = domain.rewards(states, actions)[:, domain.task_names.index("walk")]
            error = f"{np.abs(ours - loop()).max():.1e}"
        rows.append(
            {
                "domain": name,
                "states/s (4 tasks)": round(count / times["ours"]),
                "dm_control (1 task)": round(count / times["dm_control"]),
                "over dm_control": f"{over:.0f}×",
                "required": f"{OVER_DM_CONTROL[name]}×",
                "largest difference": error,
            }
        )
    table("relabelling from physics", rows)


def walker_like(task: str, seed: int) -> Dataset:
    """A dataset of walker's shape with every column; the numbers are noise, since only their bytes matter here."""
    random, steps, rows = np.random.default_rng(seed), EPISODES * STEPS, EPISODES * (STEPS + 1)
    return Dataset.from_arrays(
        random.standard_normal((rows, 24), np.float32),
        random.uniform(-1, 1, (steps, 6)),
        random.random(steps, np.float32),
        lengths=[STEPS] * EPISODES,
        physics=random.random((rows, 18)),
        task_rewards=random.random((steps, 4), np.float32),
        task=f"walker-{task}",
        domain="walker",
        task_names=domains.task_ids(domains.get("walker")),
    )


def pool_memory(trust: bool) -> list[float]:
    """Bytes: peak of making a pool of all sources, its columns, and peak of the process that then trains on it."""
    return printed_by(MEMORY, trust, *SOURCES)


def loading_and_memory() -> None:
    for seed, task in enumerate(SOURCES):
        walker_like(task, seed).save(f"walker-{task}/replay")
    file = ids.folder("walker-walk/replay") / "data" / "main_data.hdf5"

    def ours() -> list[np.ndarray]:
        dataset = store.load("walker-walk/replay")
        return [dataset.column(name) for name in dataset.columns]

    times = fastest({"ours": ours, "numpy": lambda: np.fromfile(file, np.uint8)})
    peak, columns, training = pool_memory(trust=True)
    checked = pool_memory(trust=False)[-1]
    size = file.stat().st_size / 1e6
    most = (1.5 * columns + 700e6) / columns
    require("loading, over numpy", times["ours"] / times["numpy"], most=3, noise=RATIO)
    require("memory of a pool, over its columns", peak / columns, most=1.3, noise=BYTES)
    require("memory of training, over the pool's columns", training / columns, most=most, noise=BYTES)

    def row(what: str, ours: float, reference: float, most: str) -> dict[str, object]:
        shown = [f"{value / 1e6:.0f} MB" if value > 1e6 else f"{value:.3f} s" for value in (ours, reference)]
        ratio = f"{ours / reference:.2f}×"
        return {"what": what, "ours": shown[0], "reference": shown[1], "ratio": ratio, "at most": most}

    loading = f"loading {EPISODES * STEPS / 1e6:g}M transitions, over numpy reading the same {size:.0f} MB"
    trusted = "peak memory of training UTDS on it, all in all, dynamics trusted, over its columns"
    rows = [
        row(loading, times["ours"], times["numpy"], "3×"),
        row("peak memory of a four-source pool, over its columns", peak, columns, "1.3×"),
        row(trusted, training, columns, f"1.5× + 700 MB: {most:.2f}×"),
        row("the same, after the check of dynamics", checked, columns, "–"),
    ]
    table("store and pool", rows)


IMPORTED = 500_000  # steps of the files that are imported
READING_AND_WRITING = 1.0  # required: at most the time of the format's library and Minari's own writer
IMPORT_MEMORY = """
import sys
from common import memory_from_here, peak_memory
from utds.data.formats import importing
options = importing.Options()
importing.load([(sys.argv[2], "robot/small")], options)  # a small file: everything is imported
before = memory_from_here()
made = importing.load([(sys.argv[1], "robot/a")], options)[0].dataset
print(peak_memory() - before, sum(made.column(name).nbytes for name in made.columns))
"""


def by_h5py(path: Path) -> dict[str, np.ndarray]:
    import h5py

    with h5py.File(path) as file:
        return {name: file[name][()] for name in file if isinstance(file[name], h5py.Dataset) and file[name].shape}


def by_numpy(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def by_pyarrow(path: Path) -> dict[str, np.ndarray]:
    import pyarrow.parquet

    found = pyarrow.parquet.read_table(path)
    rows: dict[str, list[np.ndarray]] = {}  # observation_0, observation_1 … are one array, as in the other files
    for name in found.column_names:
        rows.setdefault(name.rstrip("0123456789"), []).append(found.column(name).to_numpy())
    return {name: np.stack(found, axis=1) if len(found) > 1 else found[0] for name, found in rows.items()}


def stored_by_minari(arrays: dict[str, np.ndarray]) -> None:
    """What a user of Minari does with arrays that were read: cut at the ends of episodes, then Minari's own writer."""
    import gymnasium
    import minari
    from minari.data_collector import EpisodeBuffer

    observations, following = pick(arrays, "observation"), pick(arrays, "next_observation")
    actions, rewards = pick(arrays, "action"), pick(arrays, "reward")
    terminal = np.asarray(pick(arrays, "terminal", "terminated", "termination"), bool)
    cut = np.asarray(pick(arrays, "timeout", "truncated", "truncation"), bool)
    ends = np.flatnonzero(terminal | cut) + 1
    buffers = [
        EpisodeBuffer(
            id=k,
            observations=np.concatenate([observations[a:b], following[b - 1 : b]]),
            actions=actions[a:b],
            rewards=rewards[a:b],
            terminations=terminal[a:b],
            truncations=cut[a:b],
        )
        for k, (a, b) in enumerate(zip([0, *ends], ends, strict=False))
    ]
    minari.create_dataset_from_buffers(
        "minari/own-v0",
        buffers,
        observation_space=gymnasium.spaces.Box(-np.inf, np.inf, observations.shape[1:], observations.dtype),
        action_space=gymnasium.spaces.Box(-1, 1, actions.shape[1:], actions.dtype),
    )
    shutil.rmtree(minari.storage.get_dataset_path("minari/own-v0"))


def pick(arrays: dict[str, np.ndarray], *names: str) -> np.ndarray:
    """The array of one of these names, in the singular, the plural or with a number behind it."""
    return next(values for key, values in arrays.items() if key.rstrip("s_") in names)


def imported(path: Path) -> None:
    """As `utds data import` does it: recognised, checked, stored with a digest and flushed to the disk."""
    imports.save(imports.load([(str(path), "robot/a")], imports.Options()), overwrite=True)


def importing(folder: Path) -> None:
    """D4RL and parquet files of a robot's size, against the formats' own libraries.

    The processor's time is compared, since what else the machine does shall not count. Two comparisons: reading and
    checking alone, over the library that only reads the same arrays; and the whole import, over the library and
    Minari's own writer, which make a dataset of the same format. The second one is required: it is the same work.
    """
    random, episodes = np.random.default_rng(0), IMPORTED // 1_000
    made = Dataset.from_arrays(
        random.standard_normal((IMPORTED + episodes, 24), np.float32),
        random.uniform(-1, 1, (IMPORTED, 6)).astype(np.float32),
        random.random(IMPORTED, np.float32),
        lengths=[1_000] * episodes,
        task="robot",
    )
    readers = {"a.hdf5": by_h5py, "a.npz": by_numpy, "a.parquet": by_pyarrow}
    for data, name in ((made, "a"), (made.select([0]), "small")):
        d4rl.write(data, folder / f"{name}.hdf5")
        np.savez(folder / f"{name}.npz", **by_h5py(folder / f"{name}.hdf5"))
        table_file.write(data, folder / f"{name}.parquet")
    del made
    rows = [import_row(folder, folder / file, library) for file, library in readers.items()]
    table(f"import of {IMPORTED:,} steps: the processor's time, and peak memory over the dataset", rows)


def import_row(folder: Path, path: Path, library: Callable[[Path], dict[str, np.ndarray]]) -> dict[str, object]:
    works = {
        "read": lambda: formats_read(path),
        "library read": lambda: library(path),
        "import": lambda: imported(path),
        "stored": lambda: stored_by_minari(library(path)),
    }
    times = {name: min(found) for name, found in rounds(works, 5, time.process_time).items()}
    peak, size = printed_by(IMPORT_MEMORY, path, folder / f"small{path.suffix}")
    plain, whole = times["read"] / times["library read"], times["import"] / times["stored"]
    require(f"import of {path.name}, over the library and Minari", whole, most=READING_AND_WRITING, noise=RATIO)
    require(f"peak memory of importing {path.name}, over the dataset", peak / size, most=1.5, noise=BYTES)
    return {
        "file": f"{path.suffix}, {library.__name__.removeprefix('by_')}",
        "read, checked": f"{times['read']:.3f} s",
        "library reads": f"{times['library read']:.3f} s",
        "ratio": f"{plain:.2f}×",
        "imported": f"{times['import']:.3f} s",
        "library, Minari": f"{times['stored']:.3f} s",
        "ratio, ≤ 1": f"{whole:.2f}×",
        "memory, ≤ 1.5": f"{peak / size:.2f}×",
    }


def formats_read(path: Path) -> Dataset:
    """Recognised, read and checked; nothing stored."""
    return imports.load([(str(path), "robot/a")], imports.Options())[0].dataset


DRAWS = 500  # batches of 256 transitions


def sampling() -> None:
    """Weighted draws over uniform ones, both compiled."""
    import jax

    from utds.data.lake import share

    data = walker_like("walk", 0)
    pools = {"uniform": share(data), "weighted": share(data, weights="returns")}

    @jax.jit
    def draws(pool: Pool) -> jax.Array:
        def add(step: int, total: jax.Array) -> jax.Array:
            return total + pool.sample(jax.random.fold_in(jax.random.key(0), step), 256).rewards.sum()

        return jax.lax.fori_loop(0, DRAWS, add, 0.0)

    works = {name: partial(lambda pool: jax.block_until_ready(draws(pool)), pool) for name, pool in pools.items()}
    for work in works.values():
        work()  # compiles
    times = {name: min(found) / DRAWS for name, found in rounds(works, 5, time.process_time).items()}
    rows = [
        {
            "what": f"a batch of 256 out of {data.size:,} transitions",
            "uniform": f"{1e6 * times['uniform']:.0f} µs",
            "weighted": f"{1e6 * times['weighted']:.0f} µs",
            "ratio": f"{times['weighted'] / times['uniform']:.2f}×",
        }
    ]
    table("sampling of a pool", rows)


def learned_reward() -> None:
    try:
        main = store.load("walker-walk/medium-replay")
        shared = [store.load(f"walker-{task}/replay") for task in SOURCES if task != "walk"]
    except DataError as error:
        print(f"learned reward: not measured, {error}")
        return
    model = LearnedReward().fit(main)
    rows = []
    for data in shared:
        truth = Known().label(data, "walker-walk")
        mean, std = model.predict(data)
        correlation = float(np.corrcoef(mean, truth)[0, 1])
        require(f"learned reward on {data.name}: correlation", correlation, least=CORRELATION, noise=0)
        rows.append(
            {
                "shared data": data.name,
                "correlation with the truth": correlation,
                "at least": f"{CORRELATION}",
                "mean error": float(np.abs(mean - truth).mean()),
                "mean doubt": float(std.mean()),
            }
        )
    table(f"learned reward of walker-walk, from {main.name}: {model.correlation:.3f} on episodes kept aside", rows)


def main() -> None:
    relabelling()
    learned_reward()
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"MINARI_DATASETS_PATH": folder}):
        sampling()
        loading_and_memory()
        importing(Path(folder))


if __name__ == "__main__":
    main()
    verdict()

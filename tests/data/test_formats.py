"""Imports and exports: hand-made files against rows written down by hand."""

import sys

import minari
import numpy as np
import pytest
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

from utds.cli import data
from utds.data import store
from utds.data.dataset import Dataset
from utds.data.formats import arrays, d4rl, exorl, importing
from utds.data.formats import minari as minari_format
from utds.errors import DataError, MissingExtra


def episode(folder, name: str, rows: int, first: float, last_discount: float = 1.0, **changes) -> None:
    """An ExORL file whose observation t is (first + t, −t), action t is t/100 and reward t is 10·first + t."""
    step = np.arange(rows, dtype=np.float64)
    arrays = {
        "observation": np.stack([first + step, -step], axis=1).astype(np.float32),
        "action": np.where(step == 0, 0, step / 100)[:, None].astype(np.float32),
        "reward": (10 * first + step)[:, None].astype(np.float32),
        "discount": np.where(step == rows - 1, last_discount, 1.0)[:, None].astype(np.float32),
        "physics": np.stack([step, step, first + step], axis=1),
    }
    np.savez(folder / name, **{key: value for key, value in (arrays | changes).items() if value is not None})


def test_an_exorl_folder_gives_exactly_these_rows(tmp_path):
    episode(tmp_path, "episode_000010_2.npz", 3, 500)
    episode(tmp_path, "episode_2_3.npz", 4, 100, last_discount=0.0)
    (tmp_path / "README.txt").write_text("not an episode")
    found = exorl.read(tmp_path).dataset(task="robot-walk", kind="replay")
    assert found.lengths.tolist() == [3, 2]  # by index, not by name
    assert found.observations.tolist() == [[100, 0], [101, -1], [102, -2], [103, -3], [500, 0], [501, -1], [502, -2]]
    np.testing.assert_array_equal(found.actions[:, 0], np.float32([0.01, 0.02, 0.03, 0.01, 0.02]))
    assert found.rewards.tolist() == [1001, 1002, 1003, 5001, 5002]
    assert found.terminations.tolist() == [False, False, True, False, False]
    assert found.truncations.tolist() == [False, False, False, False, True]
    assert found.physics[:, 2].tolist() == [100, 101, 102, 103, 500, 501, 502]
    assert found.metadata.task == "robot-walk" and found.metadata.kind == "replay" and found.metadata.domain is None


def test_exorl_without_physics(tmp_path):
    episode(tmp_path, "episode_0_2.npz", 3, 0, physics=None)
    assert exorl.read(tmp_path).dataset(task="robot-walk").physics is None
    with pytest.raises(DataError, match="can't be relabelled: it holds no physics"):
        data.import_((str(tmp_path), "robot-walk/proto"), relabel=True)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("episode_1_5.npz", {}, r"episode_1_5.npz: observation has 3 rows; by its name the episode has 5 steps, so 6"),
        ("episode_1_2.npz", {"reward": None}, r"episode_1_2.npz holds no reward; an episode has observation"),
        ("episode_1_2.npz", {"reward": np.zeros((2, 1))}, r"episode_1_2.npz: reward has 2 rows, but observation has 3"),
        ("episode_1_2.npz", {"discount": 1.0}, r"episode_1_2.npz: discount has no rows, but observation has 3"),
        (
            "episode_1_2.npz",
            {"action": np.zeros((3, 4))},
            r"actions has rows of shape \[4\], but the first episode has \[1\]",
        ),
        ("episode_1_2.npz", {"physics": None}, r"has no physics, unlike the first"),
        ("episode_1_2.npz", {"discount": np.float32([1, 0, 1])}, r"discount is 0 at row 1, but the episode continues"),
        ("episode_1_2.npz", {"observation": np.full((3, 2), np.nan)}, r"observations, row 3 \(episode 1, step 0\)"),
        ("episode_00_2.npz", {}, r"have the same index"),
        ("episode_1_0.npz", {"rows": 1}, r"episode_1_0.npz holds a start state and no step; remove it"),
        (
            "episode_1_2.npz",
            {"reward": np.zeros((3, 2))},
            r"episode_1_2.npz: reward has shape \[3, 2\]; \[n\] is needed",
        ),
        ("episode_1_2.npz", {"discount": np.ones((3, 2))}, r"episode_1_2.npz: discount has shape \[3, 2\]; \[n\]"),
    ],
)
def test_faulty_exorl_files_are_named(tmp_path, name, changes, message):
    episode(tmp_path, "episode_0_2.npz", 3, 0)
    episode(tmp_path, name, **({"rows": 3, "first": 0} | changes))
    with pytest.raises(DataError, match=message):
        exorl.read(tmp_path).dataset(task="robot-walk")


def test_folders_without_episodes_are_refused(tmp_path):
    with pytest.raises(DataError, match="holds no episode"):
        exorl.read(tmp_path).dataset(task="robot-walk")
    with pytest.raises(DataError, match="is no folder"):
        exorl.read(tmp_path / "absent")


class Bomb:
    """Unpickling this writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickled_object_is_refused_without_running_it(tmp_path):
    mark = tmp_path / "it-ran"
    np.savez(tmp_path / "episode_0_2.npz", observation=np.array([Bomb(mark)] * 3, object))
    with pytest.raises(DataError, match="holds a Python object, not numbers; refused"):
        exorl.read(tmp_path).dataset(task="robot-walk")
    np.savez(tmp_path / "arrays.npz", observations=np.array([Bomb(mark)], object))
    with pytest.raises(DataError, match="refused"):
        arrays.read(tmp_path / "arrays.npz")
    (tmp_path / "naked.npz").write_bytes(b"\x80\x04N.")  # a pickle with the wrong suffix
    with pytest.raises(DataError):
        arrays.read(tmp_path / "naked.npz")
    assert not mark.exists()


@pytest.mark.parametrize("kept", [0, 10, 200])
def test_damaged_array_files_end_in_one_line(tmp_path, kept):
    episode(tmp_path, "episode_0_2.npz", 3, 0)
    path = tmp_path / "episode_0_2.npz"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"episode_0_2\.npz") as caught:
        exorl.read(tmp_path).dataset(task="robot-walk")
    assert "\n" not in str(caught.value)


def test_a_damaged_compressed_array_file_ends_in_one_line(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, observations=np.zeros((9, 2)), actions=np.zeros((8, 1)), rewards=np.zeros(8))
    damaged = bytearray(path.read_bytes())
    damaged[30 + int.from_bytes(damaged[26:28], "little") + int.from_bytes(damaged[28:30], "little")] = 0xFF
    path.write_bytes(damaged)  # the first byte of what was compressed
    with pytest.raises(DataError, match=r"a\.npz is damaged"):
        arrays.read(path)


def test_the_robot_of_a_known_task_is_checked(tmp_path):
    episode(tmp_path, "episode_0_2.npz", 3, 0)
    with pytest.raises(DataError, match="observations have 2 numbers per row, but walker has 24"):
        exorl.read(tmp_path).dataset(task="walker-walk")


def test_recorded_data_survives_both_exports(tmp_path, record):
    made = record("pointmass-reach-top-left", episodes=3, steps=15)
    importing.export(made, str(tmp_path / "episodes"))
    again = exorl.read(tmp_path / "episodes").dataset(task="pointmass-reach-top-left")
    assert again.metadata.domain == "pointmass"
    for name in ("observations", "actions", "rewards", "terminations", "truncations", "physics"):
        assert np.array_equal(again.column(name), made.column(name))
    file = tmp_path / "arrays.npz"
    importing.export(made, str(file))
    whole = arrays.read(file).dataset(task="pointmass-reach-top-left", kind="random", seed=0)
    assert whole.digest == made.digest
    with pytest.raises(DataError, match="exists already"):
        importing.export(made, str(file))


def test_import_can_relabel_from_physics(tmp_path, record):
    made = record("pointmass-reach-top-left", episodes=2, steps=10)
    importing.export(made, str(tmp_path / "episodes"))
    data.import_((str(tmp_path / "episodes"), "pointmass-reach-bottom-right/random"), relabel=True)
    other = store.load("pointmass-reach-bottom-right/random")
    index = made.metadata.task_names.index("pointmass-reach-bottom-right")
    np.testing.assert_allclose(other.rewards, made.task_rewards[:, index], atol=1e-6)
    assert other.metadata.task == "pointmass-reach-bottom-right"


def test_array_files_with_strange_names_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", observations=np.zeros((2, 1)), actions=np.zeros((1, 1)), rewards=np.zeros(1), x=1)
    with pytest.raises(DataError, match="holds an array 'x'; known names are observations"):
        arrays.read(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", observations=np.zeros((2, 1)))
    with pytest.raises(DataError, match="holds no actions"):
        arrays.read(tmp_path / "b.npz")


def foreign(id: str, observation_space, action_space, observations, actions, both_ends: bool = False) -> None:
    buffer = EpisodeBuffer(
        observations=observations,
        actions=actions,
        rewards=[1.0, 2.0],
        terminations=[False, True],
        truncations=[False, both_ends],
        infos={},
    )
    with pytest.warns(UserWarning):  # Minari wishes for an author, a description and so on
        minari.create_dataset_from_buffers(id, [buffer], observation_space=observation_space, action_space=action_space)


def test_any_minari_dataset_of_numbers(root):
    box = spaces.Box(-9, 9, (2,), np.float64)
    space = spaces.Dict({"goal": box, "arm": spaces.Box(-9, 9, (1, 2), np.float64)})
    seen = {"goal": np.arange(6.0).reshape(3, 2), "arm": -np.arange(6.0).reshape(3, 1, 2)}
    foreign(
        "maze/easy-v0",
        space,
        spaces.Box(-2, np.float32([2, 6]), (2,), np.float32),
        seen,
        np.array([[-2.0, 6], [1, 2]]),
        True,
    )
    found = store.load("maze/easy-v0")
    order = list(space.spaces)  # gymnasium's own order of a Dict space
    assert np.array_equal(found.observations, np.concatenate([seen[name].reshape(3, 2) for name in order], axis=1))
    assert found.actions.tolist() == [[-1, 1], [0.5, 0]]  # scaled from [-2, 2] × [-2, 6]
    assert found.rewards.tolist() == [1, 2] and found.metadata.task == "maze/easy-v0"
    assert found.terminations.tolist() == [False, True] and not found.truncations.any()


def test_minari_datasets_that_cannot_be_used_say_why(root):
    box = spaces.Box(-1, 1, (1,), np.float64)
    foreign("robot/discrete-v0", box, spaces.Discrete(3), np.zeros((3, 1)), np.array([1, 2]))
    with pytest.raises(DataError, match="actions in a Discrete space"):
        store.load("robot/discrete-v0")
    foreign("robot/words-v0", spaces.Text(3), box, ["a", "b", "c"], np.zeros((2, 1)))
    with pytest.raises(DataError, match="observations in a Text space"):
        store.load("robot/words-v0")
    with pytest.raises(DataError, match="Minari can't load robot/absent-v0"):
        minari_format.read("robot/absent-v0")


def test_downloads_say_what_they_lack_in_one_line(monkeypatch):
    with pytest.raises(
        DataError, match=r"Minari can't load pen/absent-v0: it isn't under .* fetch it with --download$"
    ):
        minari_format.read("pen/absent-v0")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "minari.storage.remotes.huggingface", raising=False)
    with pytest.raises(MissingExtra, match=r"needs huggingface_hub: pip install 'utds\[download\]'$"):
        minari_format.read("pen/absent-v0", download=True)


@pytest.mark.parametrize("error", [ConnectionError("no route\nto host"), RuntimeError("")])
def test_a_failed_download_is_one_line(monkeypatch, error):
    def fail(id):
        raise error

    monkeypatch.setattr("minari.storage.hosting.download_dataset", fail)
    with pytest.raises(
        DataError, match=r"Minari can't download pen/absent-v0 \(\w+: .*\); check the network"
    ) as caught:
        minari_format.read("pen/absent-v0", download=True)
    assert "\n" not in str(caught.value)


def test_a_truncated_minari_file_ends_in_one_line(root):
    box = spaces.Box(-1, 1, (1,), np.float64)
    foreign("robot/cut-v0", box, box, np.zeros((3, 1)), np.zeros((2, 1)))
    path = root / "robot/cut-v0/data/main_data.hdf5"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match="the file of robot/cut-v0 is damaged") as caught:
        store.load("robot/cut-v0")
    assert "\n" not in str(caught.value)


def test_importing_d4rl_holds_little_more_than_the_dataset(tmp_path):
    """Its arrays are read a block at a time; the file has every state twice."""
    import tracemalloc

    random, steps = np.random.default_rng(0), 200_000
    made = Dataset.from_arrays(
        random.standard_normal((steps + 200, 24), np.float32),
        random.uniform(-1, 1, (steps, 6)).astype(np.float32),
        random.random(steps, np.float32),
        lengths=[1_000] * 200,
        task="robot",
    )
    d4rl.write(made, tmp_path / "a.hdf5")
    d4rl.write(made.select([0]), tmp_path / "small.hdf5")
    d4rl.read(tmp_path / "small.hdf5").dataset(task="robot")  # everything is imported
    tracemalloc.start()
    try:
        read = d4rl.read(tmp_path / "a.hdf5").dataset(task="robot")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read.digest == made.digest
    assert peak < 1.5 * sum(made.column(name).nbytes for name in made.columns)

"""The store: bit-identical round trips, Minari as the reader, ids, and every fault found and told in one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import minari
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from minari.storage import get_dataset_path

from utds.data import ids, store
from utds.data.dataset import Dataset
from utds.data.lake import Lake
from utds.errors import DataError


def full(lengths: list[int], width: int = 3, seed: int = 0, **metadata) -> Dataset:
    """Random numbers in every column there is."""
    random = np.random.default_rng(seed)
    steps, rows = sum(lengths), sum(lengths) + len(lengths)
    return Dataset.from_arrays(
        random.normal(size=(rows, width)),
        random.uniform(-1, 1, (steps, 2)),
        random.normal(size=steps),
        terminations=np.isin(np.arange(steps), np.cumsum(lengths)[::2] - 1),
        lengths=lengths,
        physics=random.normal(size=(rows, 5)),
        task_rewards=random.normal(size=(steps, 2)),
        **({"task": "robot-walk", "task_names": ("robot-walk", "robot-run")} | metadata),
    )


def file_of(dataset: Dataset) -> Path:
    return ids.folder(dataset.name) / "data" / store.FILE


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 5), st.integers(0, 99))
def test_round_trip_is_bit_identical(lengths, width, seed):
    made = full(lengths, width, seed, kind="medium", random_return=1.5, expert_return=20.0, description="ö")
    kept = made.save("robot-walk/medium", overwrite=True)
    assert kept.columns == made.columns and kept.lengths.tolist() == lengths
    for name in made.columns:
        assert kept.column(name).dtype == made.column(name).dtype
        assert kept.column(name).tobytes() == made.column(name).tobytes()
    assert kept.digest == made.digest
    assert kept.metadata.id == "robot-walk/medium" and kept.metadata.description == "ö"
    assert kept.metadata.versions["minari"] == minari.__version__
    assert store.verify("robot-walk/medium").columns == made.columns
    assert kept.save("robot-walk/copy", overwrite=True).digest == made.digest


def test_a_version_that_a_newer_one_hides_is_listed_and_pooled_by_its_id(coded):
    old, new = (
        coded(0, [3], task="rob-walk").save("rob-walk/m-v0"),
        coded(1, [5], task="rob-walk").save("rob-walk/m-v1"),
    )
    coded(2, [2], task="rob-walk").save("rob-walk/alone")
    assert [id for id, _ in store.listed()] == ["rob-walk/alone", "rob-walk/m-v0", "rob-walk/m-v1"]
    assert all(store.load(id).size == described["total_steps"] for id, described in store.listed())
    assert Lake([store.load("rob-walk/m")]).pool("rob-walk/m").info.digests == (new.digest,)
    assert Lake([old]).pool(old.name).info.digests == (old.digest,)
    with pytest.raises(DataError, match="rob-walk/alone is not in this lake"):
        Lake([old, new]).pool("rob-walk/alone")


def test_numbers_of_numpy_may_stand_in_the_metadata():
    made = full([4], seed=0, random_return=np.float32(0.5), task_names=np.array(["robot-walk", "robot-run"]))
    kept = made.save("robot-walk/medium")
    assert kept.metadata.random_return == 0.5 and kept.metadata.task_names == ("robot-walk", "robot-run")


def test_parts_of_a_column_are_read_alone():
    kept = full([4, 6]).save("robot-walk/medium")
    out = np.empty((3, 3), np.float32)
    assert np.array_equal(kept.read("observations", 2, 5, out), full([4, 6]).observations[2:5])
    assert np.array_equal(kept.episode(1).observations, full([4, 6]).observations[5:])


def test_a_column_lies_in_one_stretch():
    kept = full([10] * 300).save("robot-walk/medium")
    described = store.read_metadata(ids.folder(kept.name))["utds"]["columns"]
    assert {name: len(entry["runs"]) for name, entry in described.items()} == dict.fromkeys(kept.columns, 1)


def test_columns_in_many_stretches_are_read_too(monkeypatch):
    monkeypatch.setattr(store, "_HEADER", 1)  # no room set aside: hdf5 puts headers between the episodes
    made = full([50] * 40, 30)
    kept = made.save("robot-walk/medium")
    described = store.read_metadata(ids.folder(kept.name))["utds"]["columns"]
    assert len(described["observations"]["runs"]) > 1
    assert np.array_equal(kept.observations, made.observations)
    assert np.array_equal(kept.read("physics", 49, 153), made.physics[49:153])
    store.verify(kept.name)


def test_minari_reads_it(root):
    made = full([4, 6, 3], random_return=1.0, expert_return=9.0)
    made.save("robot-walk/medium")
    assert get_dataset_path() == root == ids.root()
    assert list(minari.list_local_datasets()) == ["utds/robot-walk/medium-v0"]
    found = minari.load_dataset("utds/robot-walk/medium-v0")
    assert (found.total_episodes, found.total_steps) == (3, 13)
    assert found.observation_space.shape == (3,) and found.action_space.low.tolist() == [-1, -1]
    for index, episode in enumerate(found.iterate_episodes()):
        ours = made.episode(index)
        assert np.array_equal(episode.observations, ours.observations)
        assert np.array_equal(episode.actions, ours.actions)
        assert np.array_equal(episode.rewards, ours.rewards)
        assert np.array_equal(episode.infos["physics"], ours.physics)
        assert np.array_equal(episode.infos["task_rewards"], ours.task_rewards)
        assert episode.terminations[-1] == ours.terminated and episode.truncations[-1] != ours.terminated
    assert minari.get_normalized_score(found, np.array([5.0])) == [0.5]
    long = found.filter_episodes(lambda episode: len(episode) > 3)
    assert long.total_episodes == 2 and long.total_steps == 10


def test_minari_lists_it_in_the_shell():
    full([4]).save("robot-walk/medium")
    command = [Path(sys.executable).with_name("minari"), "list", "local"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "200"})
    assert "utds/robot-walk/medium-v0" in printed.stdout


def test_foreign_minari_datasets_load_by_their_own_id(root):
    full([4]).save("robot-walk/medium")
    (root / "other").mkdir()
    os.rename(root / "utds/robot-walk/medium-v0", root / "other/medium-v0")
    path = root / "other/medium-v0/data/metadata.json"
    described = json.loads(path.read_text()) | {"dataset_id": "other/medium-v0"}
    del described["utds"]
    path.write_text(json.dumps(described))
    found = store.load("other/medium")
    assert np.array_equal(found.observations, full([4]).observations) and found.metadata.task == "other/medium-v0"
    with pytest.raises(DataError, match="not written by utds"):
        store.verify("other/medium-v0")


def test_versions():
    full([4], seed=0).save("robot-walk/medium")
    full([4], seed=2).save("robot-walk/medium-v2")
    full([4], seed=10).save("robot-walk/medium-v10")
    assert store.load("robot-walk/medium").metadata.id == "robot-walk/medium-v10"
    assert store.load("utds/robot-walk/medium-v0").digest == full([4], seed=0).digest
    os.rename(ids.folder("robot-walk/medium-v10"), ids.folder("robot-walk/medium-v010"))  # as another tool may write it
    assert store.load("robot-walk/medium").metadata.id == "robot-walk/medium-v010"
    assert [name for name, _ in store.listed()] == [
        "robot-walk/medium-v0",
        "robot-walk/medium-v010",
        "robot-walk/medium-v2",
    ]


@pytest.mark.parametrize(
    "id", ["../../x", "/etc/passwd", "a/../b", "a//b", "", ".", "a/.hidden", "a\\b", "a/b\n", "~/x", "a/data", "ä/b"]
)
def test_ids_that_could_lead_elsewhere_are_refused(id, root):
    for action in (store.load, store.verify, full([4]).save):
        with pytest.raises(DataError, match=r"no dataset id|can't be a dataset id|needs an id") as caught:
            action(id)
        assert "\n" not in str(caught.value)
    assert not root.exists() or not list(root.rglob("*.hdf5"))


def test_an_existing_dataset_is_replaced_only_when_asked():
    first = full([4], seed=0).save("robot-walk/medium")
    with pytest.raises(DataError, match="exists already"):
        full([4], seed=1).save("robot-walk/medium")
    assert store.load("robot-walk/medium").digest == first.digest
    second = full([4], seed=1).save("robot-walk/medium", overwrite=True)
    assert second.digest != first.digest and store.load("robot-walk/medium").digest == second.digest
    with pytest.raises(DataError, match="changed after the dataset was loaded"):
        _ = first.observations
    with pytest.raises(DataError, match="there is no dataset robot-walk/expert"):
        store.load("robot-walk/expert")


@pytest.mark.parametrize("column", ["observations", "actions", "rewards", "terminations", "truncations", "physics"])
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_a_flipped_bit_is_found(column, where):
    kept = full([4, 6]).save("robot-walk/medium")
    offset, size = store.read_metadata(ids.folder(kept.name))["utds"]["columns"][column]["runs"][0]
    with open(file_of(kept), "rb+") as file:
        place = offset + int(where * (size - 1))
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(DataError, match=f"column {column} was altered"):
        store.verify(kept.name)


def test_altered_metadata_are_found():
    kept = full([4, 6]).save("robot-walk/medium")
    path = ids.folder(kept.name) / "data" / "metadata.json"
    original = path.read_text()

    def altered(change) -> str:
        described = json.loads(original)
        change(described["utds"])
        path.write_text(json.dumps(described))
        with pytest.raises(DataError) as caught:
            store.verify(kept.name)
        return str(caught.value)

    assert "metadata were altered" in altered(lambda ours: ours["metadata"].update(task="robot-run"))
    assert "damaged" in altered(lambda ours: ours.pop("digest"))
    assert "damaged" in altered(lambda ours: ours.update(lengths=[[5, 1]]))
    assert "don't add up" in altered(lambda ours: ours["columns"]["rewards"].update(shape=[9]))
    assert "format 99" in altered(lambda ours: ours.update(format=99))
    assert "was altered" in altered(lambda ours: ours["columns"]["rewards"]["runs"][0].__setitem__(0, 8))
    path.write_text(original[: len(original) // 2])
    with pytest.raises(DataError, match="no valid JSON"):
        store.load(kept.name)
    assert list(store.listed()) == [("robot-walk/medium", {})]


def test_a_header_that_points_elsewhere_is_found():
    kept = full([4, 6]).save("robot-walk/medium")
    size = file_of(kept).stat().st_size
    with h5py.File(file_of(kept), "r+") as file:
        file.move("episode_0/rewards", "episode_0/hidden")
        file["episode_0"]["rewards"] = file["episode_1/rewards"]
    with open(file_of(kept), "rb+") as file:
        file.truncate(size)
    with pytest.raises(DataError):
        store.verify(kept.name)


@pytest.mark.parametrize("left", [0, 100, 5000])
def test_a_truncated_file_is_told_in_one_line(left):
    kept = full([4, 6]).save("robot-walk/medium")
    with open(file_of(kept), "rb+") as file:
        file.truncate(left)
    with pytest.raises(DataError, match=f"has {left} bytes instead of .*cut short") as caught:
        store.load(kept.name)
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_told_and_leaves_no_trace(tmp_path, monkeypatch):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting a small tmpfs isn't permitted here")
    try:
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(disk))
        small = full([4]).save("robot-walk/medium")
        with pytest.raises(DataError, match="the disk is full") as caught:
            full([1000] * 20).save("robot-walk/expert")
        assert "\n" not in str(caught.value)
        assert [path.name for path in (disk / "utds/robot-walk").iterdir()] == ["medium-v0"]
        store.verify(small.name)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_datasets_of_earlier_versions_load(root):
    """They say nothing of labellings and action bounds, and their digest doesn't cover them."""
    kept = full([4, 6]).save("robot-walk/medium")
    path = ids.folder(kept.name) / "data" / "metadata.json"
    described = json.loads(path.read_text())
    for name in ("labelling", "action_low", "action_high"):
        del described["utds"]["metadata"][name]
    path.write_text(json.dumps(described))
    old = store.load(kept.name)
    assert old.metadata.labelling == "known" and old.metadata.action_low == () and old.digest == kept.digest
    assert store.verify(kept.name).digest == kept.digest
    assert kept.digest == "45fcd88b48d6f729c95d5cd65399b2ca32acd9c0c14eeafcd7bb70e3ff89dca9"  # as then


def test_some_rows_of_a_stored_column_are_read_without_keeping_it(monkeypatch):
    rng = np.random.default_rng(0)
    made = Dataset.from_arrays(rng.normal(size=(1_001, 3)), rng.uniform(-1, 1, (1_000, 2)), np.zeros(1_000))
    kept = made.save("robot-walk/some")
    small = lambda data, name: (data.read(name, at, min(at + 300, 1_001)) for at in range(0, 1_001, 300))  # noqa: E731
    monkeypatch.setattr(Dataset, "parts", small)
    index = np.array([500, 3, 0, 3, 1_000])
    assert kept.take("observations", index).tobytes() == made.observations[index].tobytes()
    assert not isinstance(kept._columns["observations"], np.ndarray)
    assert kept.take("observations", np.array([], int)).shape == (0, 3)

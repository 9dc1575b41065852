"""`utds data import`: files written by the formats' own libraries or by hand from their specifications."""

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from utds.cli import data
from utds.data import store
from utds.data.dataset import Dataset
from utds.data.formats import importing
from utds.data.lake import share
from utds.errors import ConfigError, DataError, Error
from utds.files import write_json

STATES = np.arange(12.0).reshape(6, 2)  # two episodes: of 3 states and of 3 states
TAKEN = np.array([[0.1], [0.2], [0.9], [0.4], [0.5], [0.8]])
EARNED = np.arange(6.0) + 10


def steps(**more) -> dict:
    return {"observations": STATES, "actions": TAKEN, "rewards": EARNED} | more


def brought(source, id: str = "robot-walk/logs", **options) -> Dataset:
    data.import_((str(source), id), **options)
    return store.load(id)


# D4RL


D4RL = {"terminals": [0, 0, 1, 0, 0, 0], "timeouts": [0, 0, 0, 0, 0, 1]}


def hdf5(path, arrays: dict):
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


@pytest.mark.parametrize("suffix", [".npz", ".hdf5"])
def test_d4rl_with_next_observations(tmp_path, suffix):
    path, arrays = tmp_path / f"hopper{suffix}", steps(next_observations=STATES + 2, **D4RL)
    arrays |= {"infos/qpos": np.zeros((6, 4)), "metadata/x": np.zeros(3)}
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        hdf5(path, arrays)
    found = brought(path)
    assert importing.recognise(str(path)) == "d4rl" and found.lengths.tolist() == [3, 3]
    assert found.observations.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [6, 7], [8, 9], [10, 11], [12, 13]]
    assert np.array_equal(found.actions, TAKEN.astype(np.float32)) and found.rewards.tolist() == EARNED.tolist()
    assert found.terminations.tolist() == [0, 0, 1, 0, 0, 0] and found.truncations.tolist() == [0, 0, 0, 0, 0, 1]
    assert found.metadata.task == "robot-walk" and found.metadata.kind == "logs"


def test_d4rl_without_next_observations_leaves_out_what_is_unknown(tmp_path, capsys):
    found = brought(hdf5(tmp_path / "pen.hdf5", steps(**D4RL)))
    # The first episode ended in earnest: its last step is kept, for its reward. The second was cut: its last is not.
    assert found.lengths.tolist() == [3, 2] and found.rewards.tolist() == [10, 11, 12, 13, 14]
    assert found.observations[:, 0].tolist() == [0, 2, 4, 4, 6, 8, 10]
    assert found.terminations.tolist() == [0, 0, 1, 0, 0]
    assert "1 last steps left out" in capsys.readouterr().out.replace("\n", " ")


def test_d4rl_without_timeouts_is_cut_where_states_do_not_follow(tmp_path, capsys):
    after = STATES + 2
    after[2] = [90, 91]  # what follows is another episode
    path = hdf5(tmp_path / "maze.hdf5", steps(next_observations=after, terminals=np.zeros(6)))
    assert brought(path).lengths.tolist() == [3, 3]
    assert "1 cuts found" in capsys.readouterr().out.replace("\n", " ")


def test_d4rl_comes_back_as_it_went(tmp_path):
    made = Dataset.from_arrays(
        np.random.default_rng(0).normal(size=(8, 2)),
        np.linspace(-50, 50, 6)[:, None],
        EARNED,
        lengths=[2, 4],
        terminations=[0, 1, 0, 0, 0, 0],
        action_bounds=(-60, 60),
        task="robot-walk",
    ).save("robot-walk/made")
    for target in ("made.hdf5", "made.parquet", "made.npz", "made"):
        data.export("robot-walk/made", str(tmp_path / target))
        again = brought(tmp_path / target, f"robot-walk/again-{target.replace('.', '-')}", actions="-60:60")
        for name in made.columns:
            np.testing.assert_allclose(again.column(name), made.column(name), rtol=1e-5, atol=1e-6)
        assert again.metadata.action_high == (60.0,)
    with h5py.File(tmp_path / "made.hdf5") as file:
        np.testing.assert_allclose(file["actions"][:, 0], np.linspace(-50, 50, 6), rtol=1e-5)
    with pytest.raises(ConfigError, match="doesn't tell its format"):
        data.export("robot-walk/made", str(tmp_path / "made.txt"))
    for format, ending in (("table", ".csv"), ("d4rl", ".npz"), ("arrays", ".parquet")):
        with pytest.raises(ConfigError, match="would hold another format than its name says"):
            data.export("robot-walk/made", str(tmp_path / f"other{ending}"), format=format)
    data.export("robot-walk/made", str(tmp_path / "v1.0"), format="exorl")


@pytest.mark.parametrize("target", ["made.hdf5", "made.parquet", "made.npz"])
def test_data_without_rewards_comes_back_without_them(tmp_path, target):
    made = Dataset.from_steps(STATES, TAKEN, lengths=[3, 3], task="robot-walk").save("robot-walk/made")
    data.export(made.name, str(tmp_path / target))
    again = brought(tmp_path / target, "robot-walk/again")
    assert again.metadata.labelling == made.metadata.labelling == "zero"
    assert np.array_equal(again.observations, made.observations) and not again.rewards.any()


def test_minari_says_that_rewards_were_not_recorded():
    import minari

    made = Dataset.from_steps(STATES, TAKEN, lengths=[3, 3], task="robot-walk").save("robot-walk/made")
    data.export(made.name, "robot/made-v0", format="minari")
    assert "recorded without rewards" in minari.load_dataset("robot/made-v0").storage.metadata["description"]


def test_d4rl_without_timeouts_and_next_states_says_that_cuts_are_unknown(tmp_path, capsys):
    path = hdf5(tmp_path / "pen.hdf5", steps(terminals=[0, 0, 1, 0, 0, 0]))
    assert brought(path).lengths.tolist() == [3, 2]
    assert "episodes are told apart by terminals alone" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"terminals": [0, 0, np.nan, 0, 0, 0]}, "terminals, row 2: nan is neither true nor false"),
        ({"terminals": np.zeros((6, 3))}, r"terminals has shape \[6, 3\]; \[n\] is needed"),
        ({"timeouts": np.zeros((6, 3))}, r"timeouts has shape \[6, 3\]; \[n\] is needed"),
        ({"rewards": np.zeros((6, 3))}, r"rewards has shape \[6, 3\]; \[n\] is needed"),
    ],
)
def test_d4rl_flags_and_rewards_are_one_per_step(tmp_path, changes, message):
    refused(hdf5(tmp_path / "a.hdf5", steps(**D4RL) | changes), rf"a\.hdf5: {message}")


# OGBench


def test_ogbench_flags_and_rewards_are_one_per_state_and_physics_keeps_its_digits(tmp_path):
    ends, path = [0, 0, 1, 0, 0, 1], tmp_path / "cube.npz"
    for changes in ({"rewards": np.zeros((6, 3))}, {"terminals": [0, 0, 1, 0, np.nan, 1]}):
        np.savez(path, **steps(qpos=STATES, **({"terminals": ends} | changes)))
        refused(path, r"cube\.npz: (rewards has shape \[6, 3\]|terminals, row 4: nan is neither)")
    np.savez(path, **steps(terminals=ends, qpos=STATES + 1000.123456789, qvel=STATES))
    assert brought(path).physics[:, :2].tolist() == (STATES + 1000.123456789).tolist()


def test_ogbench_rewards_of_a_state_go_to_the_step_that_reaches_it(tmp_path):
    ends = [0, 0, 1, 0, 0, 1]
    np.savez(tmp_path / "cube.npz", **steps(terminals=ends, qpos=STATES, qvel=-STATES))
    found = brought(tmp_path / "cube.npz")
    assert importing.recognise(str(tmp_path / "cube.npz")) == "ogbench" and found.lengths.tolist() == [2, 2]
    assert found.observations.tolist() == STATES.tolist()
    assert np.array_equal(found.actions[:, 0], np.float32([0.1, 0.2, 0.4, 0.5]))
    assert found.rewards.tolist() == [11, 12, 14, 15]  # r(s1), r(s2) | r(s4), r(s5)
    assert not found.terminations.any() and found.truncations.tolist() == [0, 1, 0, 1]
    assert found.physics.tolist() == np.concatenate([STATES, -STATES], axis=1).tolist()


def test_ogbench_play_data_has_no_rewards(tmp_path, capsys):
    np.savez(tmp_path / "play.npz", observations=STATES, actions=TAKEN, terminals=[0, 0, 1, 0, 0, 1])
    found = brought(tmp_path / "play.npz")
    assert found.metadata.labelling == "zero" and not found.rewards.any()
    assert "no rewards in the file" in capsys.readouterr().out.replace("\n", " ")
    np.savez(tmp_path / "cut.npz", observations=STATES, actions=TAKEN, terminals=[0, 0, 1, 0, 0, 0])
    with pytest.raises(DataError, match="ends in the middle of a trajectory"):
        brought(tmp_path / "cut.npz", "a/b")
    pixels = np.zeros((6, 4, 4, 3), np.uint8)
    np.savez(tmp_path / "visual.npz", observations=pixels, actions=TAKEN, terminals=[0, 0, 1, 0, 0, 1])
    with pytest.raises(DataError, match="observations holds pictures"):
        brought(tmp_path / "visual.npz", "a/b")


# LeRobot


def lerobot(folder, version="v3.0", frames=(3, 2, 4), tasks=(0, 1, 0), order=None, drop=(), **info):
    """A folder by LeRobot's specification: state (10·episode + frame, −frame), action in degrees."""
    episode = np.repeat(np.arange(len(frames)), frames)
    frame = np.concatenate([np.arange(count) for count in frames])
    state = np.stack([10.0 * episode + frame, -frame], axis=1).astype(np.float32)
    columns = {
        "observation.state": pyarrow.FixedSizeListArray.from_arrays(state.reshape(-1), 2),
        "action": pyarrow.array([[float(90 * f)] for f in frame], pyarrow.list_(pyarrow.float32())),
        "next.reward": frame.astype(np.float32) + 1,
        "timestamp": frame / 30,
        "frame_index": frame,
        "episode_index": episode,
        "index": np.arange(len(frame)),
        "task_index": np.array(tasks)[episode],
    }
    table = pyarrow.table({name: values for name, values in columns.items() if name not in drop})
    table = table.take(np.arange(len(frame)) if order is None else order)
    data_folder = folder / "data" / "chunk-000"
    data_folder.mkdir(parents=True)
    for number, (start, stop) in enumerate([(0, 4), (4, len(table))]):  # files needn't end where episodes do
        pyarrow.parquet.write_table(table.slice(start, stop - start), data_folder / f"file-{number:03d}.parquet")
    features = {name: {"dtype": "float32"} for name in [*columns, "observation.images.front"] if name not in drop}
    about = {"codebase_version": version, "fps": 30, "features": features}
    write_json(
        folder / "meta" / "info.json",
        about | {"total_episodes": len(frames), "total_frames": len(frame)} | info,
    )
    words = pyarrow.table({"task_index": [0, 1], "__index_level_0__": ["Pick the cube", "Open drawer!"]})
    pyarrow.parquet.write_table(words, folder / "meta" / "tasks.parquet")
    return folder


def test_lerobot_is_split_by_task(tmp_path):
    folder = lerobot(tmp_path / "so100")
    data.import_((str(folder), "so100/demos"), actions="0:360")
    cube, drawer = store.load("so100-pick-the-cube/demos"), store.load("so100-open-drawer/demos")
    assert cube.lengths.tolist() == [2, 3] and drawer.lengths.tolist() == [1]
    assert cube.observations[:, 0].tolist() == [0, 1, 2, 20, 21, 22, 23]
    np.testing.assert_allclose(cube.raw_actions[:, 0], [0, 90, 0, 90, 180], atol=1e-4)
    assert cube.rewards.tolist() == [1, 2, 1, 2, 3] and not cube.terminations.any()
    assert cube.metadata.task == "so100-pick-the-cube" and cube.metadata.description == "Pick the cube"


def test_lerobot_of_one_task_without_rewards_in_any_order(tmp_path):
    order = np.random.default_rng(0).permutation(9)
    found = brought(lerobot(tmp_path / "one", tasks=(0, 0, 0), order=order, drop=("next.reward",)), actions="auto")
    assert found.observations[:, 0].tolist() == [0, 1, 2, 10, 11, 20, 21, 22, 23]
    assert found.metadata.labelling == "zero" and found.metadata.task == "robot-walk"
    assert found.metadata.description == "Pick the cube; action bounds found from the data, with a margin of 5%"


def test_lerobot_tasks_that_letters_do_not_tell_apart(tmp_path, capsys):
    folder = lerobot(tmp_path / "so100", frames=(3, 2, 4), tasks=(0, 1, 2))
    words = ["抓起方块", "打开抽屉", "Open drawer!" + 300 * "x"]
    table = pyarrow.table({"task_index": [0, 1, 2], "__index_level_0__": words})
    pyarrow.parquet.write_table(table, folder / "meta" / "tasks.parquet")
    data.import_((str(folder), "so100/demos"), actions="auto")
    long = "so100-open-drawer-" + 88 * "x"
    found = {f"so100-task-{i + 1}/demos": words[i] for i in (0, 1)} | {f"{long}/demos": words[2]}
    for name, description in found.items():
        assert store.load(name).metadata.description.startswith(description)


def test_lerobot_episodes_that_change_their_task_say_so(tmp_path, capsys):
    folder = lerobot(tmp_path / "so100", tasks=(0, 0, 0))
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    rows = pyarrow.parquet.read_table(path)
    at = rows.schema.get_field_index("task_index")
    pyarrow.parquet.write_table(rows.set_column(at, "task_index", pyarrow.array([0, 0, 1, 0])), path)
    assert brought(folder, actions="auto").episodes == 3
    assert "1 episodes change their task" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_frames": 12}, "should hold 12 frames and holds 9"),
        ({"total_episodes": 4}, "should hold 4 episodes and holds 3"),
        ({"features": None}, "records no observation.state; it has nothing"),
        ({"tasks": (0, np.nan, 1)}, "row 4 has no number in column 'task_index'"),
        ({"version": "v1.6"}, "LeRobot's format v1.6; v2 and v3"),
        ({"drop": ("action",)}, "records no action"),
        ({"order": [0, 1, 1, 3, 4, 5, 6, 7, 8]}, "episode 0 lacks frames or has some twice"),
    ],
)
def test_lerobot_folders_that_are_not_whole(tmp_path, changes, message):
    refused(lerobot(tmp_path / "so100", **changes), message)


# RLDS


def rlds(**changes) -> dict:
    last, first = np.array([0, 0, 1, 0, 0, 1]), np.array([1, 0, 0, 1, 0, 0])
    return {
        "steps/observation/state": STATES,
        "steps/observation/gripper": -STATES[:, :1],
        "steps/action": TAKEN,
        "steps/reward": EARNED,
        "steps/is_first": first,
        "steps/is_last": last,
        "steps/is_terminal": [0, 0, 1, 0, 0, 0],
    } | changes


def test_rlds_steps(tmp_path):
    np.savez(tmp_path / "steps.npz", **rlds())
    found = brought(tmp_path / "steps.npz")
    assert importing.recognise(str(tmp_path / "steps.npz")) == "rlds" and found.lengths.tolist() == [2, 2]
    assert np.array_equal(found.observations, np.concatenate([-STATES[:, :1], STATES], axis=1))  # by name
    assert found.rewards.tolist() == [10, 11, 13, 14]
    assert np.array_equal(found.actions[:, 0], np.float32([0.1, 0.2, 0.4, 0.5]))
    assert found.terminations.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps/is_first": [1, 0, 0, 0, 1, 0]}, "cut short or shuffled at row 2"),
        ({"steps/is_last": [0, 0, 1, 0, 0, 0]}, "cut short or shuffled at row 5"),
        ({"steps/reward": EARNED[:4]}, "reward has 4 rows, but observation has 6"),
        ({"steps/reward": np.zeros((6, 3))}, r"reward has shape \[6, 3\]; \[n\] is needed"),
        ({"steps/is_terminal": [0, 0, np.nan, 0, 0, 0]}, "is_terminal, row 2: nan is neither true nor false"),
        ({"steps/reward": 1.0}, "reward has no rows, but observation has 6"),
        ({"steps/observation/gripper": STATES[:4]}, "observation/state has 6 rows, but observation/gripper has 4"),
        ({"steps/observation/image": np.zeros((6, 2, 2, 3), np.uint8)}, "image holds pictures"),
    ],
)
def test_rlds_steps_that_make_no_episodes(tmp_path, changes, message):
    np.savez(tmp_path / "steps.npz", **rlds(**changes))
    refused(tmp_path / "steps.npz", message)


# Tables


TABLE = """ep,t,q0,q1,dq0,u0,r,task,done
0,0.0,0,1,2,-45,10,reach,False
0,0.1,3,4,5,0,11,reach,False
0,0.2,6,7,8,45,12,reach,True
1,0.0,9,10,11,90,13,"push, hard",false
1,0.1,12,13,14,-90,14,"push, hard",false
"""
COLUMNS = ("observations=q*,dq*", "actions=u*", "episode=ep", "reward=r", "time=t")


def table(tmp_path, text: str = TABLE, suffix: str = ".csv"):
    path = tmp_path / f"logs{suffix}"
    if suffix == ".csv":
        path.write_text(text)
    else:
        from pyarrow import csv

        csv_file = tmp_path / "for.csv"
        csv_file.write_text(text)
        pyarrow.parquet.write_table(csv.read_csv(csv_file), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables(tmp_path, suffix):
    found = brought(table(tmp_path, suffix=suffix), columns=COLUMNS, actions="-90:90")
    assert found.lengths.tolist() == [2, 1]
    assert found.observations.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [12, 13, 14]]
    assert found.actions[:, 0].tolist() == [-0.5, 0, 1] and found.rewards.tolist() == [10, 11, 13]
    ended = brought(table(tmp_path, suffix=suffix), "a/b", columns=(*COLUMNS, "termination=done"), actions="-90:90")
    assert ended.lengths.tolist() == [3, 1] and ended.terminations.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_are_split_by_a_column(tmp_path, suffix):
    path = table(tmp_path, suffix=suffix)
    data.import_((str(path), "arm/logs"), columns=COLUMNS, actions="auto", task_from="task")
    reach, push = store.load("arm-reach/logs"), store.load("arm-push-hard/logs")
    assert reach.rewards.tolist() == [10, 11] and push.rewards.tolist() == [13]
    assert reach.metadata.action_high == push.metadata.action_high == (90.0 + 0.05 * 135,)


def test_episodes_are_told_apart_by_numbers_of_any_length(tmp_path):
    """Such as a time in nanoseconds or a digest; as float64 these are one number."""
    first, second = 2**53, 2**53 + 1
    rows = "".join(f"{i},{i / 10},{number}\n" for i, number in enumerate([first] * 2 + [second] * 2))
    found = brought(table(tmp_path, "observation_0,action_0,episode\n" + rows))
    assert found.lengths.tolist() == [1, 1] and found.observations[:, 0].tolist() == [0, 1, 2, 3]


def test_lists_in_a_parquet_column(tmp_path):
    made = pyarrow.table({"state": STATES.tolist(), "u": TAKEN[:, 0], "ep": [0, 0, 0, 1, 1, 1]})
    pyarrow.parquet.write_table(made, tmp_path / "a.parquet")
    found = brought(tmp_path / "a.parquet", columns=("observations=state", "actions=u", "episode=ep"))
    assert found.observations.tolist() == STATES.tolist() and found.lengths.tolist() == [2, 2]


@pytest.mark.parametrize("others", ["", ",q0,q1"])
def test_names_of_columns_come_before_patterns(tmp_path, others):
    path = table(
        tmp_path, f"q[0],q[1],u{others}\n" + "".join(f"{i},{-i},0{',9,9' if others else ''}\n" for i in range(3))
    )
    found = brought(path, columns=("observations=q[0],q[1]", "actions=u"))
    assert found.observations.tolist() == [[0, 0], [1, -1], [2, -2]]


def test_a_table_whose_last_row_lacks_its_task_was_cut_short(tmp_path):
    text = "q,u,ep,task\n0,0,0,reach\n1,0,0,reach\n\n2,0,1,reach\n3,0,1"
    message = "row 4 has no column 'task'; it was cut short"
    refused(table(tmp_path, text), message, columns=("observations=q", "actions=u", "episode=ep"), task_from="task")


def test_a_bad_cell_is_found_by_its_row_however_long_the_table(tmp_path):
    lines = [f"{i},0" for i in range(18_100)]
    for bad, message in (("x,0", "could not convert string 'x' .*"), ("7", "invalid column index 1 ")):
        lines[18_000] = bad
        text = "\n".join(["q,u", *lines])
        refused(table(tmp_path, text), f"{message}at row 18001[ ,]", columns=("observations=q", "actions=u"))


@pytest.mark.parametrize(("role", "name"), [("reward", "r"), ("episode", "ep")])
def test_lists_where_a_parquet_column_needs_numbers(tmp_path, role, name):
    made = {"q": STATES[:, 0], "u": TAKEN[:, 0], "ep": [0, 0, 0, 1, 1, 1], "r": EARNED}
    made[name] = [[0, i] for i in range(6)]
    pyarrow.parquet.write_table(pyarrow.table(made), tmp_path / "a.parquet")
    message = rf"a\.parquet: column '{name}' holds lists of 2 numbers; one per row is needed"
    refused(tmp_path / "a.parquet", message, columns=("observations=q", "actions=u", f"{role}={name}"))


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (TABLE, (), "say which columns of .* it has ep, t, q0"),
        (TABLE, ("observations=q*", "actions=v*"), r"has no column 'v\*' \(actions\)"),
        (TABLE, ("observations=q*",), "names no actions"),
        (TABLE, ("observations=q*", "actions=u*", "speed=t"), "speed=… is unknown"),
        (TABLE, ("observations=q*", "actions=u*", "reward=q*"), "stands for 2 columns"),
        (TABLE, ("observations",), "role=columns pairs"),
        (TABLE.replace("0,0.1,3,4,5", "0,0.1,,4,5"), COLUMNS, "can't be read as a table of numbers"),
        (TABLE.replace("3,4,5", "3,nan,5"), COLUMNS, "row 2 has no number in column 'q1'"),
        (TABLE[:-25], COLUMNS, "can't be read as a table of numbers"),
        (TABLE.replace("0,0.2,", "0,0.05,"), COLUMNS, "row 3 is not later than the row before it: the rows are shuff"),
        (TABLE.replace("\n0,0.2,", "\n2,0.2,").replace("\n1,0.0", "\n0,0.3"), COLUMNS, "isn't in one piece"),
        (TABLE.splitlines()[0], COLUMNS, "holds no row|can't be read"),
        ("", COLUMNS, "is empty"),
        (
            TABLE.replace("q0,q1", "q0,q0"),
            COLUMNS,
            r"has 2 columns named 'q0' \(observations\); give each its own name",
        ),
        (TABLE, (*COLUMNS, "truncation=task"), "can't be read as a table of numbers"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, text, columns, message):
    refused(table(tmp_path, text), message, columns=columns, actions="auto")


# All of them


def refused(source, message: str, **options) -> None:
    """One line, and nothing stored."""
    with pytest.raises(Error, match=message) as caught:
        brought(source, **options)
    assert "\n" not in str(caught.value)
    assert list(store.listed()) == []


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".csv", ".parquet"])
@pytest.mark.parametrize("kept", [0, 40, 400])
def test_interrupted_files(tmp_path, suffix, kept):
    path = tmp_path / f"logs{suffix}"
    if suffix in (".csv", ".parquet"):
        table(tmp_path, suffix=suffix)
    elif suffix == ".npz":
        np.savez(path, **steps(**D4RL))
    else:
        hdf5(path, steps(**D4RL))
    path.write_bytes(path.read_bytes()[: min(kept, path.stat().st_size - 30)])
    refused(path, str(path), columns=COLUMNS if suffix in (".csv", ".parquet") else (), actions="auto")


@pytest.mark.parametrize(
    "name", ["absent.npz", "absent.hdf5", "absent.csv", "absent.parquet", "./absent", "absent/x.y"]
)
def test_missing_files(name):
    refused(name, "there is no file")


def test_files_of_no_known_kind(tmp_path):
    (tmp_path / "notes.txt").write_text("words")
    refused(tmp_path / "notes.txt", "none of the files that can be imported")
    refused("robot/absent-v0", "Minari can't load robot/absent-v0")
    hdf5(tmp_path / "other.hdf5", {"x": np.zeros(3)})
    refused(tmp_path / "other.hdf5", "holds no observations")
    hdf5(tmp_path / "short.hdf5", steps(**D4RL) | {"rewards": EARNED[:5]})
    refused(tmp_path / "short.hdf5", "rewards has 5 rows, but observations has 6")


@pytest.mark.parametrize(
    "names",
    [("observations", "actions", "terminals"), ("observations", "actions", "terminals", "next_observations"),
     ("observation", "action", "is_first", "is_last"), ("observations", "actions", "terminals", "qpos"),
     ("observations", "actions")],
)  # fmt: skip
def test_files_without_a_row(tmp_path, names):
    rows = {name: np.zeros((0, 2) if name[:3] in ("obs", "act", "nex", "qpo") else 0) for name in names}
    np.savez(tmp_path / "none.npz", **rows)
    refused(tmp_path / "none.npz", r"none\.npz: \S+ is empty")
    if "terminals" in names:
        refused(hdf5(tmp_path / "none.hdf5", rows), r"none\.hdf5: \S+ is empty")


def test_a_cut_in_the_middle_of_an_episode_is_no_transition(tmp_path):
    """The index says one episode, the marks two: the step across the cut must not be learnt from."""
    given = {"episode_index": [0, 0, 0, 0, 0, 1], "truncations": [0, 0, 1, 0, 0, 1]}
    message = r"row 2 \(episode 0, step 2\) is marked as an end, but the episode continues"
    with pytest.raises(DataError, match=message):
        Dataset.from_steps(STATES, TAKEN, EARNED, **given)
    np.savez(tmp_path / "a.npz", **steps(next_observations=STATES + 2, **given))
    refused(tmp_path / "a.npz", message)
    path = tmp_path / "b.csv"
    rows = [f"{i},{i / 10},{e},{t}" for i, (e, t) in enumerate(zip(*given.values(), strict=True))]
    path.write_text("\n".join(["observation_0,action_0,episode,truncated", *rows]))
    refused(path, message)


def test_arrays_of_no_dimension(tmp_path):
    np.savez(tmp_path / "a.npz", observations=STATES, actions=0.5)
    refused(tmp_path / "a.npz", r"actions has shape \[\]; \[n, d\] is needed")
    np.savez(tmp_path / "d4rl.npz", **steps(rewards=1.0, **D4RL))
    refused(tmp_path / "d4rl.npz", "rewards has no rows, but observations has 6")
    np.savez(tmp_path / "b.npz", **steps(actions=TAKEN[:5], rewards=EARNED[:5], task_rewards=TAKEN[:5], task_names="x"))
    assert brought(tmp_path / "b.npz").metadata.task_names == ("x",)


def test_actions_beyond_one_must_be_explained(tmp_path):
    path = hdf5(tmp_path / "arm.hdf5", steps(**D4RL) | {"actions": 90 * TAKEN})
    refused(path, r"arm\.hdf5: its actions lie between 9 and 81, not in \[-1, 1\]; say what the robot takes")
    refused(path, r"lies outside the bounds \[-45, 45\]", actions="-45:45")
    assert brought(path, actions="-90:90").raw_actions.max() == pytest.approx(81)


def test_several_sources_at_once_share_their_bounds_and_fail_together(tmp_path, capsys):
    first = hdf5(tmp_path / "a.hdf5", steps(**D4RL) | {"actions": 10 * TAKEN})
    second = hdf5(tmp_path / "b.hdf5", steps(**D4RL) | {"actions": -20 * TAKEN})
    pairs = (str(first), "arm-reach/logs", str(second), "arm-push/logs")
    data.import_(pairs, actions="auto", dry_run=True)
    printed = capsys.readouterr().out
    assert "nothing was stored" in printed and "arm-push/logs" in printed and list(store.listed()) == []
    data.import_(pairs, actions="auto")
    found = [store.load(name).metadata for name in ("arm-reach/logs", "arm-push/logs")]
    assert found[0].action_low == found[1].action_low == pytest.approx((-18 - 0.05 * 27,))
    with pytest.raises(ConfigError, match="would be stored as utds/x/y-v0"):
        data.import_((str(first), "x/y", str(second), "x/y"), actions="auto")
    with pytest.raises(DataError, match="there is no file"):
        data.import_((str(first), "x/y", "absent.csv", "x/z"), actions="auto")
    third = hdf5(tmp_path / "c.hdf5", steps(**D4RL) | {"actions": np.ones((6, 2))})
    with pytest.raises(DataError, match=r"a\.hdf5 has 1 actions per step and .*c\.hdf5 has 2: import them one by one"):
        data.import_((str(first), "x/y", str(third), "x/z"), actions="auto")
    assert len(list(store.listed())) == 2


def test_bounds_that_cannot_be_found_name_the_source(tmp_path):
    first = hdf5(tmp_path / "a.hdf5", steps(**D4RL))
    second = hdf5(tmp_path / "b.hdf5", steps(**D4RL) | {"actions": np.where(TAKEN == 0.2, np.nan, TAKEN)})
    with pytest.raises(DataError, match=r"b\.hdf5: actions, row 1 \(episode 0, step 1\), feature 0: nan"):
        data.import_((str(first), "x/y", str(second), "x/z"), actions="auto")


def test_actions_that_float32_rounded_beyond_one_are_clipped(tmp_path):
    path = hdf5(tmp_path / "a.hdf5", steps(**D4RL) | {"actions": np.float32([[1.000001]] * 5 + [[-1.000001]])})
    for bounds in (None, "-1:1"):
        assert abs(brought(path, f"a/{bounds is None}", actions=bounds).actions).max() == 1


def test_minari_gets_the_robots_unit_and_the_environment(record):
    import minari

    made = record("pointmass-reach-top-left", episodes=2, steps=5).save("pointmass-reach-top-left/random")
    for bad in ("robot/mass", "-v0", "x/y-v0", "../mass-v0"):
        with pytest.raises(ConfigError, match="write it as NAMESPACE/NAME-v0"):
            data.export(made.name, bad, format="minari")
    data.export(made.name, "robot/mass-v0", format="minari")
    for id in ("robot/mass-v0", "utds/pointmass-reach-top-left/random-v0"):
        found = minari.load_dataset(id)
        assert found.recover_environment().spec.id == "utds/PointmassReachTopLeft-v0"
    assert np.array_equal(next(found.iterate_episodes()).actions, made.episode(0).actions)
    degrees = Dataset.from_arrays(STATES, 90 * TAKEN[:5], EARNED[:5], action_bounds=(-90, 90), task="arm").save("arm/x")
    data.export(degrees.name, "robot/arm-v0", format="minari")
    found = minari.load_dataset("robot/arm-v0")
    assert found.action_space.high.tolist() == [90] and next(found.iterate_episodes()).actions.max() == 81
    again = brought("robot/arm-v0", "arm/again")
    np.testing.assert_allclose(again.actions, degrees.actions, rtol=1e-6)
    assert again.metadata.action_low == (-90.0,)


def test_minari_data_of_two_tasks_in_one_namespace_stays_apart(coded):
    for number, task in enumerate(("reach", "push")):
        coded(number, [3, 2], task=f"arm-{task}").save(f"arm-{task}/own")
        data.export(f"arm-{task}/own", f"lab/{task}-v0", format="minari")
    data.import_(("lab/reach-v0", "arm-reach/logs", "lab/push-v0", "arm-push/logs"))
    assert [store.load(f"arm-{task}/logs").metadata.task for task in ("reach", "push")] == ["arm-reach", "arm-push"]
    pool = share(store.load("arm-reach/logs"), store.load("arm-push/logs"), rewards="zero")
    assert not np.asarray(pool.take(np.arange(5, 10)).rewards).any()  # push's own rewards are of no use to reach
    assert store.load("lab/reach-v0").metadata.task != store.load("lab/push-v0").metadata.task


def test_our_own_data_comes_back_from_minari_as_that_of_its_task(record):
    made = record("pointmass-reach-top-left").save("pointmass-reach-top-left/random")
    data.export(made.name, "lab/mass-v0", format="minari")
    back = brought("lab/mass-v0", "pointmass-reach-top-left/back")
    assert (back.metadata.task, back.metadata.domain) == (made.metadata.task, made.metadata.domain)
    assert share(made, back).info.sizes == (40, 40)

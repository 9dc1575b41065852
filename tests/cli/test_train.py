"""train, evaluate and export as a user types them."""

import csv
import json

import numpy as np
import onnxruntime
import pytest

import utds
from utds.cli import main
from utds.training.run import Run

SMALL = ["--set", "width=8", "actor_width=8", "bc_steps=9", "anneal_steps=30", "batch_size=16", "num_critics=3"]


@pytest.fixture
def stored(tiny, record):
    """Random data of two tasks."""
    tasks = "tinymass-reach-top-left", "tinymass-reach-top-right"
    return tuple(record(tiny, task, seed) for seed, task in enumerate(tasks))


def train(stored, out, *more):
    own, other = stored
    main(["train", own, "--share", other, *SMALL, "--steps=20", "--eval-every=10", f"--out={out}", *more])


def test_from_data_to_policy_to_file(stored, tmp_path, capsys):
    out = tmp_path / "run"
    train(stored, out, "--seeds=2", "--logger=tensorboard")
    assert "tinymass-reach-top-left" in capsys.readouterr().out
    run = Run(out)
    with open(out / "evaluations.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["seed"]) for row in rows] == [("10", "0"), ("10", "1"), ("20", "0"), ("20", "1")]
    assert run.result["evaluation"]["return"]["mean"] == pytest.approx(np.mean([float(r["return"]) for r in rows[2:]]))
    assert [source["id"] for source in run.config["sources"]] == list(stored)
    assert len(list(out.glob("tensorboard/seed-*/events*"))) == 2

    main(["evaluate", str(out), "--episodes=3", "--seed=7"])
    said = capsys.readouterr().out
    main(["evaluate", str(out), "--episodes=3", "--seed=7"])
    assert capsys.readouterr().out == said and "over 2 seeds, 3 episodes each" in said
    main(["evaluate", str(out), "--episodes=1", "--env=utds/TinymassReachTopLeft-v0"])
    assert "utds/TinymassReachTopLeft-v0" in capsys.readouterr().out

    main(["export", str(out), str(tmp_path / "p.onnx"), "--seed=1", "--ensemble"])
    session = onnxruntime.InferenceSession(str(tmp_path / "p.onnx"))
    observations = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_allclose(
        session.run(["actions"], {"observations": observations})[0], run.act(observations, seed=1), atol=1e-5
    )


def test_resuming_a_longer_run_equals_running_it_at_once(stored, tmp_path):
    train(stored, tmp_path / "once", "--steps=30")
    train(stored, tmp_path / "twice")
    train(stored, tmp_path / "twice", "--steps=30", "--resume")
    once, twice = ((tmp_path / name / "policy-0.safetensors").read_bytes() for name in ("once", "twice"))
    assert once == twice


def test_wrong_input_is_one_line(stored, tmp_path, refused):
    (own, other), run = stored, tmp_path / "run"
    assert "there is no dataset walker-walk/nope" in refused("train", "walker-walk/nope")
    assert "did you mean utds?" in refused("train", own, "--algo=utdz")
    assert "preset of td3" in refused("train", own, "--algo=td3", "--preset=released")
    assert "did you mean batch_size?" in refused("train", own, "--set", "bath_size=3")
    assert "it is called batch_size now" in refused("train", own, "--set", "batch=3")
    assert "name=value" in refused("train", own, "--set", "batch_size")
    for digit in "1[":
        said = refused("train", own, "--set", f"batch_size={digit * 100_000}")
        assert said.startswith(
            f"--set batch_size='{digit * 38}… has a number of thousands of digits, or thousands of b"
        )
    assert "steps=-1" in refused("train", own, "--steps=-1")
    assert "steps=0" in refused("train", own, "--steps=0", f"--out={tmp_path / 'none'}")
    assert "eval_every=0" in refused("train", own, "--eval-every=0", f"--out={tmp_path / 'none'}")
    assert "holds no run" in refused("evaluate", tmp_path)
    assert "holds no run" in refused("export", tmp_path, tmp_path / "p.onnx")
    train(stored, run)
    assert "already holds a run" in refused("train", own, f"--out={run}")
    assert "not 32" in refused("train", own, "--share", other, *SMALL, "width=32", f"--out={run}", "--resume")
    assert "did you mean: `pendulum`" in refused("evaluate", run, "--env=Pendulm-v1").lower()
    assert "has 3 observations and 1 actions" in refused("evaluate", run, "--env=Pendulum-v1")
    assert repr(Run(run)).startswith(f"<Run {run}: utds on tinymass-reach-top-left, 20 steps, 1 seed, ret")
    assert "no policy of seed 9" in refused("export", run, tmp_path / "p.onnx", "--seed=9")


def test_options_from_a_file(stored, tmp_path, capsys):
    own, other = stored
    file = tmp_path / "run.toml"
    file.write_text(
        f'main = "{own}"\nshare = ["{other}"]\nsteps = 20\neval-every = 10\nseeds = 2\nout = "{tmp_path / "run"}"\n'
        'logger = ["tensorboard"]\n[set]\nwidth = 8\nactor_width = 8\nbc_steps = 9\nanneal_steps = 30\n'
        "batch_size = 16\nnum_critics = 5\n"
    )
    main(["train", f"--config={file}", "--seeds=1", "--set", "num_critics=3", "--json"])
    printed = json.loads(capsys.readouterr().out)
    run = Run(tmp_path / "run")
    assert [source["id"] for source in run.config["sources"]] == list(stored)
    assert (run.seeds, run.config["steps"], run.algorithm.width, run.algorithm.num_critics) == ((0,), 20, 8, 3)
    assert [(row["step"], row["seed"]) for row in printed["evaluations"]] == [(20, 0)]
    assert printed["result"] == run.result
    # The command line's data and folder; the network is the other tests', so that it is compiled once.
    main(["train", own, "--config", str(file), f"--out={tmp_path / 'other'}", "--set", "num_critics=3"])
    assert Run(tmp_path / "other").seeds == (0, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("step = 3", "there is no option 'step'; did you mean steps?"),
        ("config = 'x.toml'", "there is no option 'config'"),
        ("steps = '3'", "steps is '3'; give a whole number"),
        ("resume = 1", "resume is 1; give true or false"),
        ("share = 'a/b'", "share is 'a/b'; give a list"),
        ("share = [1]", "share is 1; give text"),
        ("logger = ['tensorbord']", "logger is 'tensorbord'; did you mean tensorboard?"),
        ("steps 3", "is no TOML"),
        ("[set]\nbatch_size = 2024-01-01", "set.batch_size is 2024-01-01; give a number, text, true, false or a list"),
        ("[set]\nbatch_size = [12:00:00]", "set.batch_size is [datetime.time(12, 0)]; give a number"),
        (f"[set]\nwidth = 0x{'f' * 5_000}", "set.width is a number of thousands of digits; give a number, text"),
        (f"logger = [0x{'f' * 5_000}]", "logger is a number of thousands of digits; choose from tensorboard"),
        (f"steps = {'1' * 5_000}", "run.toml has a number of thousands of digits, or thousands of brackets in each"),
        (f"steps = 0x{'f' * 5_000}", "--steps=a number of thousands of digits must lie between 0 and 2147483647"),
        (f"steps = {'1' * 4_000}", f"--steps={'1' * 39}… must lie between 0 and 2147483647"),
        (f"steps = {'[' * 100_000}", "run.toml has a number of thousands of digits, or thousands of brackets in each"),
    ],
)
def test_a_wrong_file_of_options_is_one_line(line, message, tmp_path, refused):
    (tmp_path / "run.toml").write_text(line)
    assert message in refused("train", "a/b", "--config", tmp_path / "run.toml")
    assert "can't read" in refused("train", "a/b", f"--config={tmp_path / 'none.toml'}")


def test_without_steps_the_named_preset_says_how_many(stored, monkeypatch):
    asked = []

    class Planned(Exception):
        pass

    def planned(folder, config, resume):
        asked.append((config["algorithm"]["name"], config["steps"]))
        raise Planned

    monkeypatch.setattr(Run, "claim", planned)
    changed = ["--set", "layers=2", "critic_lr=3e-4", "anneal_steps=null", "n_step=1"]  # nearly the fields of `paper`
    for preset in ("fast", "paper"):
        with pytest.raises(Planned):
            main(["train", stored[0], "--algo=awac", f"--preset={preset}", *changed])
    assert asked == [("awac", 3_500), ("awac", 1_000_000)]


@pytest.mark.parametrize("options", [{"sampling": "episodes"}, {"weights": "returns:temperature=0.5"}])
def test_the_reports_command_of_a_run_makes_it_again(stored, tmp_path, options):
    from utds import report

    pool = utds.share(*map(utds.load, stored), **options)
    algorithm = utds.make_algorithm("td3bc", width=8, batch_size=16)
    made = utds.train(pool, algorithm, seeds=[2, 3], steps=4, eval_every=2, episodes=2, out=tmp_path / "made")
    (outcome,) = report.study([made.path]).outcomes.values()
    (line,) = outcome.commands
    assert "--episodes 2" in line
    main([*line.split()[1:], f"--out={tmp_path / 'again'}"])
    again = Run(tmp_path / "again")
    assert again.config | {"log_every": 2} == made.config and again.evaluations == made.evaluations

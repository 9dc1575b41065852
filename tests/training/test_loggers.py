"""Loggers are handed what the files of a run hold, also after a kill; Weights & Biases as a stand-in."""

import sys
from types import SimpleNamespace

import pytest

from utds import algorithms, training
from utds.errors import ConfigError, MissingExtra
from utds.training import loggers

BC = algorithms.make("bc", width=8, batch_size=8)


def train(pool, out, **options):
    given = {"steps": 20, "eval_every": 10, "log_every": 5, "evaluate": lambda act: {"return": 1.0}}
    return training.train(pool, BC, out=out, **given | options)


class Memory:
    """Keeps what it is handed."""

    def __init__(self):
        self.rows, self.calls = {}, []

    def begin(self, run):
        self.calls.append("begin")
        self.rows = {"train": [], "evaluation": []}

    def log(self, group, rows):
        self.rows[group] += rows

    def end(self):
        self.calls.append("end")


def test_a_logger_gets_the_rows_of_the_files(pool, tmp_path):
    memory = Memory()
    run = train(pool, tmp_path / "run", seeds=2, loggers=[memory])
    assert len(run.metrics) == 8 and len(run.evaluations) == 4
    assert memory.rows["evaluation"] == run.evaluations
    assert memory.rows["train"] == [pytest.approx(row) for row in run.metrics]
    assert memory.calls == ["begin", "end"]


def test_one_logger_may_be_named_without_a_list():
    assert type(loggers.make("tensorboard")[0]) is loggers.TensorBoard


def test_after_resuming_it_has_all_rows_once(pool, tmp_path):
    def broken(act):
        raise RuntimeError

    memory = Memory()
    train(pool, tmp_path / "run", steps=10)
    with pytest.raises(RuntimeError):  # its rows since the checkpoint are logged again
        train(pool, tmp_path / "run", evaluate=broken, resume=True, loggers=[memory])
    assert memory.calls == ["begin", "end"]
    run = train(pool, tmp_path / "run", resume=True, loggers=[memory])
    assert [row["step"] for row in memory.rows["train"]] == [5, 10, 15, 20] == [row["step"] for row in run.metrics]
    finished = Memory()
    train(pool, tmp_path / "run", resume=True, loggers=[finished])
    assert finished.rows["evaluation"] == run.evaluations and finished.calls == ["begin", "end"]


def test_tensorboard(pool, tmp_path):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    run = train(pool, tmp_path / "run", seeds=[3], loggers=["tensorboard"])
    (path,) = (run.path / "tensorboard" / "seed-3").iterdir()
    found = {}
    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            found.setdefault(value.tag, []).append(event.step)
    assert found["evaluation/return"] == [10, 20] and found["train/actor_loss"] == [5, 10, 15, 20]


class Service(SimpleNamespace):
    """What is used of the module wandb."""

    def __init__(self, failing=False):
        super().__init__(errors=SimpleNamespace(Error=RuntimeError), runs=[], failing=failing)

    def init(self, **options):
        if self.failing:
            raise RuntimeError("api_key not configured\n(no-tty)")
        run = SimpleNamespace(options=options, rows=[], done=0, metrics=[])
        run.log, run.define_metric = run.rows.append, lambda name, step_metric: run.metrics.append((name, step_metric))
        run.finish = lambda: setattr(run, "done", run.done + 1)
        self.runs.append(run)
        return run


def test_wandb(pool, tmp_path, monkeypatch):
    service = Service()
    monkeypatch.setitem(sys.modules, "wandb", service)
    monkeypatch.setattr(loggers.importlib.util, "find_spec", lambda name: name == "wandb" or None)
    run = train(pool, tmp_path / "run", seeds=2, loggers=["wandb"])
    assert [r.options["name"] for r in service.runs] == ["run-seed-0", "run-seed-1"]
    for seed, found in enumerate(service.runs):
        assert found.options["config"] == run.config | {"seed": seed} and found.options["dir"] == run.path
        assert found.metrics == [("*", "step")] and found.done == 1
        assert {"step": 20, "evaluation/return": 1.0} in found.rows
        assert [row["step"] for row in found.rows if "train/actor_loss" in row] == [5, 10, 15, 20]


def test_wandb_without_an_account_is_one_line(pool, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", Service(failing=True))
    monkeypatch.setattr(loggers.importlib.util, "find_spec", lambda name: name == "wandb" or None)
    with pytest.raises(ConfigError, match=r"api_key not configured \(no-tty\); log in with .* WANDB_MODE=offline"):
        train(pool, tmp_path / "run", loggers=["wandb"])


def test_a_missing_extra_and_an_unknown_name_are_said_at_once(pool, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"no logger 'tensorbord'; did you mean tensorboard\?"):
        train(pool, tmp_path / "run", loggers=["tensorbord"])
    monkeypatch.setattr(loggers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'utds\[wandb\]'"):
        train(pool, tmp_path / "run", loggers=["wandb"])
    assert not (tmp_path / "run").exists()

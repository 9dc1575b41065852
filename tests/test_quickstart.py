"""The quickstart's methods: what each may read, and how its curve is named and coloured, as the registry says.

Its data is stored, so that other commands find what its runs were trained on.
"""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from matplotlib.colors import to_hex

from utds import algorithms, quickstart, training
from utds.cli import main
from utds.data import store
from utds.data.dataset import Dataset
from utds.evaluation import Evaluation


def dataset(task: str, steps: int) -> Dataset:
    return Dataset.from_arrays(np.zeros((steps + 1, 2)), np.zeros((steps, 1)), np.ones(steps), task=task)


def test_methods_read_the_shared_data_as_registered(monkeypatch, tmp_path):
    main, other = dataset("main", 7), dataset("other", 5)
    calls = {}

    def train(pool, algorithm, **options):
        calls[algorithms.name_of(algorithm)] = pool.info.sizes, options["out"]
        return f"run of {algorithms.name_of(algorithm)}"

    monkeypatch.setattr(training, "train", train)
    monkeypatch.setattr(quickstart.Lake, "pool", lambda lake, *data: pool(data))
    story = quickstart.Story("main", "replay", 2, ("other",), 1, steps=16)
    runs = quickstart.train(story, main, [other], tmp_path, seed=3)
    assert runs == {name: f"run of {name}" for name in quickstart.METHODS}
    assert calls["pbrl"] == ((7,), tmp_path / "pbrl-3")
    assert {sizes for name, (sizes, _) in calls.items() if name != "pbrl"} == {(7, 5)}


def pool(data):
    return SimpleNamespace(info=SimpleNamespace(sizes=tuple(dataset.size for dataset in data)))


def test_curves_carry_the_registered_colours_and_the_quickstarts_labels():
    rows = [{"step": step, "return": 2.0 * step, "standard_error": 0.5} for step in (1, 2, 3)]
    runs = dict.fromkeys(quickstart.METHODS, SimpleNamespace(evaluations=rows))
    (axes,) = quickstart.curves("task", dataset("main", 3), runs).axes
    lines = [line for line in axes.lines if not line.get_label().startswith("_")]
    assert [line.get_label() for line in lines] == list(quickstart.METHODS.values())
    assert [to_hex(line.get_color()) for line in lines] == [algorithms.entry(name).colour for name in runs]
    assert len({line.get_linestyle() for line in lines}) == 4


def test_the_verdict_says_what_came_out():
    def found(**means):
        return [(label, Evaluation("t", (means[name],))) for name, label in quickstart.METHODS.items()]

    assert quickstart.verdict(found(pbrl=1, cql=2, cds=9, utds=5)).startswith("Sharing with UTDS brought 5: own data")
    assert quickstart.verdict(found(pbrl=6, cql=2, cds=9, utds=5)).startswith("This time sharing with UTDS brought 5")


def test_its_data_is_stored_once(monkeypatch, tmp_path):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    small = replace(quickstart.STORIES["pointmass"], episodes=3, share_episodes=4)
    own, (other,) = quickstart.data(small, seed=0)
    assert [store.load(data.name).digest for data in (own, other)] == [own.digest, other.digest]
    assert (own.episodes, other.episodes) == (3, 4)
    before = [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*.hdf5"))]
    assert quickstart.data(small, seed=0)[0].digest == own.digest
    assert [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*.hdf5"))] == before
    assert quickstart.data(replace(small, episodes=2), seed=0)[0].episodes == 2  # another version's is replaced


def test_json(monkeypatch, capsys):
    found = [("UTDS", Evaluation("pointmass-reach-top-right", (1.0, 3.0)))]
    monkeypatch.setattr(quickstart, "run", lambda *args: found)
    main(["quickstart", "--json"])
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["method"], entry["mean"], entry["returns"]) == ("UTDS", 2.0, [1.0, 3.0])

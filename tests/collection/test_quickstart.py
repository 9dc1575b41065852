"""The quickstart's data is stored, so that other commands find what its runs were trained on."""

import json
from dataclasses import replace

from utds import quickstart
from utds.cli import main
from utds.data import store
from utds.evaluation import Evaluation


def test_its_data_is_stored_once(monkeypatch, tmp_path):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    small = replace(quickstart.STORIES["pointmass"], episodes=3, share_episodes=4)
    main, (other,) = quickstart.data(small, seed=0)
    assert [store.load(data.name).digest for data in (main, other)] == [main.digest, other.digest]
    assert (main.episodes, other.episodes) == (3, 4)
    before = [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*.hdf5"))]
    assert quickstart.data(small, seed=0)[0].digest == main.digest
    assert [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*.hdf5"))] == before
    assert quickstart.data(replace(small, episodes=2), seed=0)[0].episodes == 2  # another version's is replaced


def test_json(monkeypatch, capsys):
    found = [("UTDS", Evaluation("pointmass-reach-top-right", (1.0, 3.0)))]
    monkeypatch.setattr(quickstart, "run", lambda *args: found)
    main(["quickstart", "--json"])
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["method"], entry["mean"], entry["returns"]) == ("UTDS", 2.0, [1.0, 3.0])

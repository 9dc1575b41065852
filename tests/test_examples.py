"""The examples run as they stand."""

from pathlib import Path

import numpy as np
import onnxruntime

from utds.training.run import Run

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_own_robot_goes_from_logs_to_a_control_loop(load_file, tmp_path, capsys, monkeypatch, optimised):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))
    load_file(EXAMPLES / "own_robot.py").main(str(tmp_path / "run"), steps=200, fit=100)
    said = capsys.readouterr().out
    assert "Deploy " in said and "Sharing " in said and "the cart stops at" in said
    shared = Run(tmp_path / "run" / "shared")
    assert shared.kept_steps == (100, 200) and shared.config["action_high"] == [12.0]
    session = onnxruntime.InferenceSession(str(tmp_path / "run" / "policy.onnx"))
    (actions,) = session.run(None, {"observations": np.zeros((3, 2), np.float32)})
    assert actions.shape == (3, 1) and np.abs(actions).max() <= 12


def test_own_algorithm_trains_resumes_exports_and_is_reported(load_file, tmp_path, capsys, monkeypatch):
    from utds import algorithms, report
    from utds.cli import main

    monkeypatch.setattr(algorithms.registry, "_ENTRIES", dict(algorithms.registry._ENTRIES))  # forgotten afterwards
    example = load_file(EXAMPLES / "own_algorithm.py")
    run = example.main(str(tmp_path / "run"), steps=20)
    assert run.metrics[-1]["effort"] > 0 and (tmp_path / "run" / "policy.onnx").exists()
    assert example.main(str(tmp_path / "run"), steps=30).evaluations[-1]["step"] == 30  # resumed
    assert algorithms.name_of(Run(tmp_path / "run").algorithm) == "gentle-td3"
    main(["evaluate", str(tmp_path / "run"), "--episodes", "2"])
    assert "pointmass-reach-top-left" in capsys.readouterr().out
    assert [result.algorithm for result in report.study([tmp_path]).results] == ["gentle-td3"]

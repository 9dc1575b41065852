"""The toy in the plane says what the paper's figure says, in numbers; and its Γ is the posterior's deviation."""

import json

import numpy as np
import pytest

from utds.cli import main
from utds.uncertainty import toy


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sharing_makes_more_known_and_nothing_less_known(seed):
    found = toy.run(seed)
    assert np.all(found.centres_single[1:] >= 5 * found.centres_shared[1:]) and found.fall >= 5
    x, y = np.meshgrid(found.axis, found.axis)
    near = (x + 1.6) ** 2 + (y + 1.2) ** 2 <= 0.9**2  # two deviations of 0.45 about the main cluster
    assert near.sum() > 100
    assert np.all(found.shared[near] <= 1.2 * found.single[near]) and found.rise <= 0.2
    assert found.centres_single[0] < 0.1  # the main cluster was known before


def test_networks_show_it_too():
    """The factors are the measurement's own; the figure's networks are larger and trained for longer."""
    found = toy.run(0, "networks", cells=41, num_models=5, width=32, steps=400)
    assert np.all(found.centres_single[1:] >= 5 * found.centres_shared[1:]) and found.fall >= 5
    x, y = np.meshgrid(found.axis, found.axis)
    near = (x + 1.6) ** 2 + (y + 1.2) ** 2 <= 0.9**2
    assert found.shared[near].mean() <= 0.2 * found.centres_single[1:].min()
    assert all(found.requirements.values()) and len(found.requirements) == 2
    assert found.centres_single[0] < 0.05 and found.single.mean() > 2 * found.shared.mean()


def test_the_ensemble_is_the_posterior():
    """Members' deviation against σ²·φᵀ(ΦᵀΦ + σ²)⁻¹φ, the posterior variance of Bayesian linear regression."""
    random = np.random.default_rng(0)
    phi, num_models, noise = random.normal(size=(30, 5)), 20_000, 0.5
    targets = random.normal(size=(30, 1)) + noise * random.normal(size=(30, num_models))
    weights = toy._ridge(phi, targets, random.normal(size=(5, num_models)), noise)
    covariance = noise**2 * np.linalg.inv(phi.T @ phi + noise**2 * np.eye(5))
    np.testing.assert_allclose(np.cov(weights), covariance, atol=0.08 * covariance.max())


def test_as_a_user_types_it(tmp_path, capsys):
    main(["uncertainty", "toy", "--out", str(tmp_path)])
    said = capsys.readouterr().out
    assert said.count("✓") == 2 and "toy.svg" in said
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "toy.svg").read_text()
    for label in ("main task alone", "main and shared", "shared task 1", "shared task 2"):
        assert label in svg
    main(["uncertainty", "toy", "--out", str(tmp_path), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["fall"] == pytest.approx(toy.run(0).fall) and found["rise"] < 0.2


def test_a_toy_that_does_not_show_it_exits_with_1(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(toy, "_ridge", lambda phi, targets, prior, noise: prior)  # models that learn nothing
    for option in ([], ["--json"]):
        with pytest.raises(SystemExit, match="1"):
            main(["uncertainty", "toy", "--out", str(tmp_path), *option])
    said = capsys.readouterr().out
    assert said.count("✗") == 1 and '"holds": false' in said
    assert (tmp_path / "toy.svg").is_file()


def test_the_networks_are_asked_for_by_an_option(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(toy, "_networks", toy._linear)  # they take ten seconds
    main(["uncertainty", "toy", "--networks", "--out", str(tmp_path)])
    assert "of what it was at the shared centres" in capsys.readouterr().out
    assert (tmp_path / "toy-networks.svg").is_file() and not (tmp_path / "toy.svg").exists()


def test_wrong_input_is_one_line(tmp_path, capsys):
    for args, word in (
        (["toy", "--against", "x"], "--against"),
        ([str(tmp_path)], "holds no run"),
        ([str(tmp_path), "--networks"], "--networks"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["uncertainty", *args, "--out", str(tmp_path)])
        error = capsys.readouterr().err.strip().splitlines()
        assert len(error) == 1 and word in error[0]

"""Γ of runs on stored data against NumPy, the plane against closed forms, and the figures as a user gets them."""

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import QuadMesh

from utds import figures
from utds.algorithms import BC, UTDS
from utds.cli import main
from utds.data.dataset import Dataset
from utds.data.lake import Lake
from utds.networks import ensemble
from utds.training import train
from utds.training.run import Run
from utds.uncertainty import measure, pictures
from utds.uncertainty.measure import Points

SMALL = {"num_critics": 3, "width": 8, "layers": 1, "batch_size": 16, "ood_actions": 1}
OPTIONS = {"steps": 6, "log_every": 2, "eval_every": 6, "checkpoint_every": 6}


def dataset(task, seed, centre) -> Dataset:
    random = np.random.default_rng(seed)
    states, actions = centre + random.normal(size=(60 + 3, 3)), random.uniform(-1, 1, (60, 2))
    return Dataset.from_arrays(states, actions, random.uniform(size=60), lengths=np.full(3, 20), task=task)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three stored datasets and runs on them: alone, shared (two seeds), and of behaviour cloning."""
    folder = tmp_path_factory.mktemp("uncertainty")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(folder / "data"))
        data = [dataset(f"arm-{n}", i, 2.0 * i).save(f"arm-{n}/replay") for i, n in enumerate(("a", "b", "c"))]
        lake = Lake(data)
        pools = {"alone": lake.pool(data[0]), "shared": lake.pool(*data, rewards="zero")}
        for name, pool in pools.items():
            train(pool, UTDS(**SMALL), seeds=2 if name == "shared" else 1, out=folder / name, **OPTIONS)
        train(pools["alone"], BC(width=8, layers=1, batch_size=16), out=folder / "bc", **OPTIONS)
    return folder


@pytest.fixture(autouse=True)
def root(folder, monkeypatch):
    for name, value in (("STEPS", 5), ("HIDDEN", (8,)), ("BATCH", 8)):
        monkeypatch.setattr(measure, name, value)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder / "data"))


def numpy_q(policy, states, actions):
    """Q_n(s, a) [E, B] in float64."""
    x = np.concatenate([(states - policy.normalizer.mean) / policy.normalizer.std, actions], axis=1).astype(np.float64)
    (first, last), members = policy.critic, range(3)
    hidden = [np.maximum(x @ np.float64(first.weight[e]) + np.float64(first.bias[e]), 0) for e in members]
    return np.stack([hidden[e] @ np.float64(last.weight[e, :, 0]) + float(last.bias[e, 0]) for e in members])


def test_numbers_equal_numpy(folder):
    run = Run(folder / "shared")
    found = measure.compare(run, Run(folder / "alone"), sample=60)
    assert [points.name for points in found.points] == ["arm-a/replay", "arm-b/replay", "arm-c/replay"]
    data = [dataset(f"arm-{n}", i, 2.0 * i) for i, n in enumerate(("a", "b", "c"))]
    judged = found.judgements[1]
    values = np.zeros((2, 2, 3, 60))  # [seed, Γ and mean Q, source, n]
    for k, source in enumerate(data):
        states, actions = source.observations[source.rows], source.actions
        for seed in (0, 1):
            q = numpy_q(run.policy(seed), states, actions)
            values[seed, :, k] = q.std(axis=0, ddof=1), q.mean(axis=0)
        q = [numpy_q(run.policy(seed), states, run.act(states, seed)) for seed in (0, 1)]
        expected = np.mean([members.std(axis=0, ddof=1) for members in q], axis=0)
        np.testing.assert_allclose(judged.policy.gamma[k], expected, atol=1e-5)
    np.testing.assert_allclose(judged.data.gamma, values[:, 0].mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(judged.data.q, values[:, 1].mean(axis=0), atol=1e-5)
    sigma = np.mean([values[seed, 1].std() for seed in (0, 1)])  # over all recorded state-actions, then over seeds
    assert judged.sigma == pytest.approx(sigma, rel=1e-4)
    np.testing.assert_allclose(judged.data.relative, values[:, 0].mean(axis=0) / sigma, rtol=1e-3)
    rows = {(row["run"], row["part"]): row for row in found.rows()}
    assert len(rows) == 6
    before, after = rows["own data alone", "shared data"], rows["with sharing", "shared data"]
    for name in ("common", "relative"):
        assert found.changes[name]["shared data"] == pytest.approx(after[name] / before[name])
        words = measure.times(after[name] / before[name])
        assert f"with sharing against own data alone: {words} on shared data" in found.sentence(name)
    assert after["gamma"] == pytest.approx(judged.data.gamma[1:].mean())


def test_the_common_target_is_learnt_where_the_data_is():
    """Two clusters, eight standard deviations apart: one ensemble sees the first, one sees both."""
    near, far = dataset("arm-a", 0, 0.0), dataset("arm-b", 1, 8.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "STEPS", 400)
        patch.setattr(measure, "HIDDEN", (32, 32))
        alone, shared = measure.fit_common([near, far], [[0], [0, 1]])
        again = measure.fit_common([near, far], [[0]])[0]
    places = [(data.observations[data.rows], data.actions) for data in (near, far)]
    own, other = ([fitted.gamma(*place).mean() for fitted in (alone, shared)] for place in places)
    assert other[0] > 5 * other[1] and other[0] > 5 * own[0]
    assert own[1] < 0.25 * other[0]
    np.testing.assert_array_equal(again.gamma(*places[1]), alone.gamma(*places[1]))
    predicted = np.asarray(ensemble(shared.params, shared.normalizer(np.concatenate(places[0], axis=1))))
    np.testing.assert_allclose(shared.gamma(*places[0]), predicted.std(axis=0, ddof=1), rtol=1e-3, atol=1e-6)


def test_the_target_has_mean_0_and_standard_deviation_1():
    random = np.random.default_rng(0)
    y = measure.response(random, random.normal(size=(500, 7)))
    assert y.shape == (500,) and y.mean() == pytest.approx(0, abs=1e-12) and y.std() == pytest.approx(1)


def test_a_run_that_reads_no_shared_data_learns_the_target_from_its_own(folder):
    run, data = Run(folder / "shared"), [dataset(f"arm-{n}", 0, 0.0) for n in "abc"]
    sources = [Dataset(d._columns, d.lengths, replace(d.metadata, id=f"{d.metadata.task}/replay")) for d in data]
    assert measure._read(run, sources) == [0, 1, 2]
    run.config["algorithm"]["name"] = "pbrl"
    assert measure._read(run, sources) == [0] and measure._labels([run]) == ["own data alone"]


def test_ratios_in_words():
    assert [measure.times(x) for x in (0.25, 0.97, 1.0, 1.04, 3.0)] == [
        "4.0 times smaller", "about the same", "about the same", "about the same", "3.0 times larger",
    ]  # fmt: skip


def test_the_plane_of_two_correlated_features():
    """Of two standardised features with correlation ρ, the first component is their sum and explains (1 + ρ)/2."""
    random = np.random.default_rng(0)
    common, own = random.normal(size=(2, 20_000, 1))
    states, actions = 5 + 3 * common, 0.1 * (0.6 * common + 0.8 * own)
    half = [Points("a", states[:9000], actions[:9000]), Points("b", states[9000:], actions[9000:])]
    projection = pictures.project(half)
    np.testing.assert_allclose(projection.explained, [0.8, 0.2], atol=0.01)
    np.testing.assert_allclose(projection.axes[:, 0], [0.5**0.5, 0.5**0.5], atol=1e-6)
    whole = projection(Points("all", states, actions))
    np.testing.assert_allclose(np.cov(whole.T), np.diag([1.6, 0.4]), atol=0.03)


def test_a_cell_is_the_mean_of_its_points():
    edges = [np.array([0.0, 1, 2]), np.array([0.0, 1, 2])]
    places = np.array([[0.5, 0.5], [0.4, 0.2], [0.1, 0.9], [1.5, 0.5], [1.5, 1.5], [1.6, 1.5], [1.7, 1.5], [5, 5]])
    gamma = np.array([1.0, 2, 6, 9, 4, 5, 6, 100])
    cells = pictures._cells(places, gamma, edges)
    np.testing.assert_array_equal(cells, [[3, np.nan], [np.nan, 5]])  # one point alone is too few


def test_both_maps_have_one_colour_scale(folder, tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(figures, "write", lambda figure, path: drawn.setdefault(path.name, figure) and (path, path))
    monkeypatch.setattr(pictures, "FEWEST", 1)
    found = measure.compare(Run(folder / "shared"), Run(folder / "alone"))
    list(pictures.draw(found, tmp_path))
    caption = " ".join(drawn["map"].get_suptitle().split())
    assert all(found.sentence(name) in caption and measure.DEFINITIONS[name] in caption for name in measure.MEASURES)
    meshes = [c for axes in drawn["map"].axes[:4] for c in axes.collections if isinstance(c, QuadMesh)]
    assert len(meshes) == 4 and meshes[0].norm is meshes[1].norm and meshes[2].norm is meshes[3].norm
    alone, shared = drawn["training"].axes
    rows = Run(folder / "shared").metrics
    lines = {line.get_label(): line.get_ydata() for line in shared.lines}
    for column, label in (("uncertainty_own", "arm-a/replay"), ("uncertainty_shared_2", "arm-c/replay")):
        expected = [row[column] / found.judgements[1].sigma for row in rows if row["seed"] == 0]
        np.testing.assert_allclose(lines[label], expected)
    assert len(alone.lines) == 1 and len(shared.lines) == 6  # sources × seeds
    assert alone.get_ylim()[0] == 0 and alone.get_ylim()[1] > max(line.get_ydata().max() for line in shared.lines)


def test_a_histogram_holds_all_state_actions(folder, tmp_path, monkeypatch):
    """Also those that are more than four decades below the largest."""
    drawn = []
    monkeypatch.setattr(figures, "write", lambda figure, path: drawn.append(figure) or (path, path))
    found = measure.compare(Run(folder / "alone"))
    found.judgements[0].data.common[:, ::2] = 1e-9
    pictures.draw_histogram(found, tmp_path / "histogram")
    for axes in drawn[0].axes:
        for outline in axes.patches:
            heights = outline.get_xy()[1:-1:2, 1]  # a step is two corners
            assert heights.sum() == pytest.approx(100)


@pytest.mark.parametrize("count", [1, 2])
def test_long_ids_fit_below_the_panels(count):
    names = [
        f"90 % of pointmass-reach-{corner}/quickstart-medium-replay-seed-0" for corner in ("top-right", "top-left")
    ]
    with figures.panels(count, 3.5 * count, 2.8) as (figure, axes):
        for side, shown in zip(axes, (names[:count], names), strict=False):
            for name in shown:
                side.plot([0, 1], label=name)
        pictures._legend(figure, axes)
        figure.draw_without_rendering()
        box = figure.legends[0].get_window_extent()
        assert [text.get_text().replace("\n", "") for text in figure.legends[0].get_texts()] == names[:count]
    assert 0 <= box.x0 and box.x1 <= figure.bbox.width


def test_as_a_user_types_it(folder, tmp_path, capsys):
    main(["uncertainty", str(folder / "shared"), "--against", str(folder / "alone"), "--out", str(tmp_path)])
    said = capsys.readouterr().out
    assert "Γ at a common target, with sharing against own data alone" in said and "policy actions" in said
    printed = [line for line in said.splitlines() if not line.startswith("figure: ")]  # paths are as long as they are
    assert max(map(len, printed)) <= 80 and not any("…" in line for line in printed)
    for name in ("map", "histogram", "training"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        text = "".join(ElementTree.parse(tmp_path / f"{name}.svg").getroot().itertext())
        assert "with sharing" in text and "own data alone" in text, name
    bracketed = folder / "[b]"
    bracketed.symlink_to(folder / "shared")
    main(["uncertainty", str(bracketed), "--against", str(folder / "shared"), "--out", str(tmp_path)])
    assert "[b]" in capsys.readouterr().out
    main(["uncertainty", str(folder / "alone"), "--out", str(tmp_path), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["changes"] == {} and set(found["definitions"]) == {"common", "relative"}
    assert [row["part"] for row in found["means"]] == ["own data", "policy actions"]


def test_wrong_input_is_one_line(folder, tmp_path, capsys, monkeypatch):
    def error(*args):
        with pytest.raises(SystemExit, match="2"):
            main(["uncertainty", *map(str, args), "--out", str(tmp_path)])
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1, lines
        return lines[0]

    assert "no ensemble of critics" in error(folder / "bc")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "elsewhere"))
    assert "there is no dataset arm-a/replay" in error(folder / "alone")
    dataset("arm-a", 9, 0.0).save("arm-a/replay")
    assert "arm-a/replay is not the data that" in error(folder / "alone")

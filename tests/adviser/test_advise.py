"""The advice as a whole: what is recommended, what is refused, and how it is told."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import utds
from utds import adviser
from utds.adviser import dynamics, ranking, robinson
from utds.adviser.advice import (
    BEST_TENTH,
    BETTER,
    BY_BEST_TENTH,
    NO_BETTER,
    RELIABILITY,
    Advice,
    Candidate,
    Option,
    draw,
    number,
    worth,
)
from utds.adviser.dynamics import Check
from utds.cli import main
from utds.errors import ConfigError


@pytest.fixture
def believed(monkeypatch):
    """`believed("same", "different")`: verdicts on the candidates' dynamics, without looking at them."""

    def believe(*verdicts):
        def checks(main, candidates, seed=0):
            return [Check(data.name, v, 0.5, 0, 0, "", 1, 9) for data, v in zip(candidates, verdicts, strict=True)]

        monkeypatch.setattr(ranking, "checks", checks)

    return believe


def test_data_that_goes_where_the_reward_is_comes_first(corners, believed):
    believed("same", "same")
    own, there, away = corners.values()
    advice = adviser.advise(own, [away, there])
    first, second = advice.candidates
    assert (first.name, second.name) == ("there", "away")
    assert first.worth.best > second.worth.best
    assert first.after < second.after <= advice.before
    assert first.score > second.score and first.plan > advice.plan >= advice.value
    assert "there" in advice.choice.names
    rise = f"from {number(advice.plan)} to {number(advice.choice.plan)}"
    assert f"a cautious plan's return rises {rise}" in advice.recommendation


def advice_of(scores: dict[str, float], **other) -> Advice:
    """An advice on datasets a, b, c with these scores of their combinations, such as {"a": 10, "a b": 11}."""
    own, check = worth(np.arange(10.0)), Check("", "same", 0.5, 0, 0, "", 1, 9)
    options = [Option(tuple(names.split()), 0.5, 0.5, 20.0, score) for names, score in scores.items()]
    ranked = [Candidate(o.names[0], own, check, 0.1, o.after, o.plan, o.score) for o in options if len(o.names) == 1]
    given = {"before": 1.0, "plan": 10.0, "value": 5.0}
    named = {"main": "own", "task": "arm-a", "worth": own, "duplicates": (), "seconds": 0.0}
    return Advice(**named | given | other, candidates=tuple(ranked), options=tuple(options))


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ({"a": 10, "b": 9, "a b": 10.9}, ("a",)),
        ({"a": 10, "b": 9, "a b": 11.1}, ("a", "b")),
        ({"a": 10, "b": 9, "c": 8, "a b": 10.5, "a b c": 11.02}, ("a",)),  # two datasets more for a tenth
        ({"a": 10, "b": 9, "c": 8, "a b": 10.5, "a b c": 12.2}, ("a", "b", "c")),  # 1.1 · 1.1 = 1.21
        ({"a": 10, "b": 9, "c": 8, "a b": 11.5, "a b c": 12.2}, ("a", "b")),
        ({"a": -1, "b": -2, "a b": -1.05}, ("a",)),
    ],
)
def test_every_further_dataset_must_add_a_tenth(scores, chosen):
    assert advice_of(scores).choice.names == chosen


def test_equal_datasets_count_once(corners, believed):
    """Two stored copies, and the main data itself among the candidates."""
    own, there, away = corners.values()
    copies = [data.save(name) for data, name in ((there, "copy-of-there"), (own, "copy-of-own"))]
    believed("same", "same")
    advice = utds.advise(own, [there, away, *copies])
    assert [candidate.name for candidate in advice.candidates] == ["there", "away"]
    assert {option.names for option in advice.options} == {("there",), ("away",), ("there", "away")}
    assert advice.duplicates == (("copy-of-there", "there"), ("copy-of-own", "own"))
    assert "copy-of-there is the same data as there, byte for byte, and counts once." in advice.recommendation
    with pytest.raises(ConfigError, match="every candidate is own itself"):
        utds.advise(own, [copies[1]])


def test_data_that_was_never_stored_is_told_apart(push, believed):
    """All of it is called after its task."""
    believed("same", "same")
    own, there, away = (push(seed, place) for seed, place in enumerate(((0, 0), (0.1, 0.1), (-0.2, -0.2))))
    found = utds.advise(own, [there, away])
    assert {candidate.name for candidate in found.candidates} == {f"{own.name} (2)", f"{own.name} (3)"}
    assert len(found.choice.names) == len(set(found.choice.names))
    twice = utds.advise(own, [there, there], trust_dynamics=True)
    assert twice.duplicates == ((f"{own.name} (3)", f"{own.name} (2)"),)


def test_the_function_is_public_and_the_package_has_another_name():
    assert utds.advise is adviser.advise is ranking.advise


def test_how_good_predictions_are_is_what_the_docs_measure():
    text = (Path(__file__).parents[2] / "docs" / "guides" / "advise.md").read_text(encoding="utf-8")
    held_out = dict(re.findall(r"^\| ([^|]+?) \| \*\*([\d.]+(?: of \d+)?)\*\* \|", text, flags=re.MULTILINE))
    for row in ("return with a source shared", "gain: score, and the difference of these returns"):
        assert held_out[row] in RELIABILITY
    assert "[45 settings]" in text and "45 held-out settings" in RELIABILITY
    regret = dict(re.findall(r"^\| ([^|]+?) \|.*\| \**([\d.]+)\** \[[\d., ]+\] \|$", text, flags=re.MULTILINE))
    first, rule = "the adviser's first choice", "the source whose best tenth of episodes returns most"
    assert re.findall(r"(\d+\.\d)[ ,.]", RELIABILITY) == [
        regret[way] for way in (first, rule, "everything", "one source at random", "nothing")
    ]
    parts = dict(re.findall(r"^\| ([^|]+?) \| \**([\d.]+)\** \| \**[\d.]+\** \|$", text, flags=re.MULTILINE))
    mass = dict(re.findall(r"^\| ([^|]+?) \| \**[\d.]+\** \| \**([\d.]+)\** \|$", text, flags=re.MULTILINE))
    score, best = "score: the adviser's order", "best tenth of its episodes under the main task"
    assert re.findall(r"\d+\.\d", BY_BEST_TENTH) == [parts[best], parts[score], mass[best], mass[score]]
    jaco = {
        way: float(re.search(rf"^\| {way} \|.*\| \**([\d.]+)\** \| [^|]+\|$", text, flags=re.MULTILINE)[1])
        for way in regret
    }
    assert round(jaco["everything"] - jaco[first]) == round(jaco["nothing"] - jaco[first]) == 6  # as the words say


def test_what_to_expect_of_sharing_is_what_the_docs_measure():
    text = (Path(__file__).parents[2] / "docs" / "results" / "robots.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"^\| UTDS \| (shared|own) \|.*\| (\d+ of \d+) \|$", text, flags=re.MULTILINE))
    assert found["shared"] in BETTER and found["own"] in NO_BETTER
    assert found["shared"] in BEST_TENTH and found["own"] in BEST_TENTH
    assert re.search(r"in (\d+ of \d+) where they were not", text)[1] in NO_BETTER


@pytest.mark.parametrize(("best", "expected", "not_said"), [(50.0, BETTER, NO_BETTER), (5.0, NO_BETTER, BETTER)])
def test_advice_says_what_came_of_sharing_such_data(best, expected, not_said):
    told = advice_of({"a": 10, "b": 9}, worth=worth(np.arange(10.0)))
    shared = [replace(candidate, worth=worth(np.array([0.0, best]))) for candidate in told.candidates]
    told = replace(told, candidates=tuple(shared)).recommendation
    assert expected in told and not_said not in told
    assert ("sharing all or nothing" in told) == (expected == NO_BETTER)
    assert f"The best tenth of a returns {number(best)} under arm-a, the main data's own 9" in told


def test_advice_names_the_candidate_with_the_best_episodes():
    """b has the higher best tenth: said where a is chosen, silent where b is or where both are."""
    for scores, said in (({"a": 10, "b": 9}, True), ({"a": 9, "b": 10}, False), ({"a": 10, "b": 9, "a b": 15}, False)):
        told = advice_of(scores, worth=worth(np.arange(10.0)))
        ranked = [replace(c, worth=worth(np.full(9, 50.0 if c.name == "b" else 0.4))) for c in told.candidates]
        told = replace(told, candidates=tuple(ranked))
        assert (f"{BY_BEST_TENTH}: if it matters, train with b too" in told.recommendation) == said
        assert [told.best_tenth(c.worth) for c in ranked] == ["0.4", "50 ↑"]
    refused = replace(told, candidates=(ranked[0], replace(ranked[1], score=None)), options=told.options[:1])
    assert BY_BEST_TENTH not in refused.recommendation


def test_nothing_to_gain_by_the_bound_and_yet_better_episodes():
    told = advice_of({"a": 10}, worth=worth(np.arange(10.0)))
    nothing = tuple(replace(option, shrinkage=0.01) for option in told.options)
    better = tuple(replace(candidate, worth=worth(np.full(9, 50.0))) for candidate in told.candidates)
    assert "Share nothing" in replace(told, options=nothing).recommendation
    assert BETTER not in replace(told, options=nothing).recommendation
    assert f"{BETTER} Train with it too" in replace(told, options=nothing, candidates=better).recommendation


def test_the_picture_ranks_by_score_and_leaves_its_width_to_the_data():
    long = "pointmass-reach-bottom-left/medium-replay"
    drawn = draw(advice_of({long: 10, "b": 4, f"{long} b": 10.5}))
    left, right = drawn.axes
    drawn.draw_without_rendering()  # lays it out
    assert left.get_position().width + right.get_position().width > 0.75  # of the figure's
    assert long in {text.get_text() for text in left.texts}
    assert [label.get_text() for label in right.get_yticklabels()] == ["A", "B", "A + B"]
    assert [bar.get_width() for bar in right.patches] == [10, 4, 10.5]
    assert "gain" in right.get_xlabel()


def test_numbers_are_short_at_any_scale():
    assert [number(x) for x in (1e-31, 0.0123, 7.25, 99.96, 2512.3, -640.4)] == [
        "0", "0.0123", "7.25", "100", "2512", "-640",
    ]  # fmt: skip
    assert [number(x, "+") for x in (3.14159, -12.5, 302.3, 0.0)] == ["+3.14", "-12.5", "+302", "0"]


def test_refused_data_is_last_and_changes_nothing(corners, believed):
    """Not even where it is the richest."""
    own, there, away = corners.values()
    believed("same")
    without = adviser.advise(own, [away])
    believed("same", "different")
    advice = adviser.advise(own, [away, there])
    allowed, refused = advice.candidates
    assert (allowed.name, refused.name) == ("away", "there")
    assert refused.score is None and refused.plan is None and refused.worth.best > allowed.worth.best
    assert (advice.plan, allowed.plan) == (without.plan, without.candidates[0].plan)
    assert [option.names for option in advice.options] == [("away",)]
    assert "Don't share there: recorded with other dynamics." in advice.recommendation
    assert "a cautious plan's return stays at 0" in advice.recommendation  # `away` never nears the reward


def test_trusted_data_is_not_checked(corners, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(ranking, "checks", None)
    main(["advise", "own", "--from", "there", "--trust-dynamics", f"--out={tmp_path}/a [b]"])
    said = capsys.readouterr().out
    assert "a [b]: advice.json" in " ".join(said.split())
    assert "trusted" in said and "Share there with own" in said and "dynamics can't be told" not in said


def test_a_weak_motor_is_refused_on_the_command_line(corners, push, tmp_path, capsys, monkeypatch):
    """The whole way, from stored data to table, figure and JSON; `test_dynamics.py` has the networks of full size."""
    for name, value in (("STEPS", 500), ("WIDTH", 32)):  # they find half a motor (p = 1e-15), and doubt the rest (0.03)
        monkeypatch.setattr(robinson, name, value)
    monkeypatch.setattr(dynamics, "LEVEL", 1e-6)
    push(4, gear=0.5).save("weak")
    main(["advise", "own", "--from", "weak", "there", f"--out={tmp_path}"])
    said = capsys.readouterr().out
    assert "refused" in said and "Share there with own" in said and "Don't share weak" in said
    told = json.loads((tmp_path / "advice.json").read_text())
    assert [(found["name"], found["score"] is None) for found in told["candidates"]] == [
        ("there", False),
        ("weak", True),
    ]
    assert told["choice"] == ["there"] and told["recommendation"] in " ".join(said.split())
    for picture in ("advice.svg", "advice.png"):
        assert (tmp_path / picture).stat().st_size > 10_000

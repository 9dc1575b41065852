"""The advice as a whole: what is recommended, what is refused, and how it is told."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import utds
from utds import adviser
from utds.adviser import advice, dynamics
from utds.adviser.advice import (
    BETTER,
    EVERYTHING,
    JACO,
    NO_BETTER,
    RELIABILITY,
    Advice,
    Candidate,
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

        monkeypatch.setattr(advice, "checks", checks)

    return believe


def test_data_that_goes_where_the_reward_is_comes_first(corners, believed):
    believed("same", "same")
    own, there, away = corners.values()
    advice = adviser.advise(own, [away, there])
    first, second = advice.candidates
    assert (first.name, second.name) == ("there", "away")
    assert first.worth.best > second.worth.best
    assert first.score > second.score and first.plan > advice.plan >= advice.value
    assert advice.choice == first
    rise = f"from {number(advice.plan)} to {number(advice.choice.plan)}"
    assert f"A cautious plan's return rises {rise}" in advice.recommendation


def advice_of(scores: dict[str, float | None], best: dict[str, float]) -> Advice:
    """An advice on datasets with these scores, None where refused, and these best tenths; the main data's own is 9."""
    check = Check("", "same", 0.5, 0, 0, "", 1, 9)
    ranked = [
        Candidate(name, worth(np.full(9, best[name])), check, None if score is None else 20.0, score)
        for name, score in scores.items()
    ]
    return Advice("own", "arm-a", worth(np.arange(10.0)), 10.0, 5.0, tuple(ranked), (), 0.0)


@pytest.mark.parametrize(
    ("scores", "best", "choice"),
    [
        ({"a": 10, "b": 9}, {"a": 50, "b": 60}, "a"),
        ({"a": 10, "b": 9}, {"a": 5, "b": 60}, "b"),  # whose best episodes are better, whatever promises more
        ({"a": -1, "b": -2}, {"a": 50, "b": 60}, "a"),
        ({"a": 10, "b": 9}, {"a": 9, "b": 0.4}, None),  # no better than the own ones
        ({"a": 10, "b": None}, {"a": 5, "b": 60}, None),
    ],
)
def test_the_best_tenth_tells_whether_and_the_score_which(scores, best, choice):
    advice = advice_of(scores, best)
    assert (advice.choice.name if advice.choice else None) == choice == advice.to_json()["choice"]
    begin = f"Share {choice} with own: " if choice else "Train on own alone, and with a too, and compare: "
    assert advice.recommendation.startswith(begin)
    assert (BETTER in advice.recommendation, NO_BETTER in advice.recommendation) == (bool(choice), not choice)
    assert [advice.best_tenth(c).endswith("↑") for c in advice.candidates] == [best[name] > 9 for name in scores]


def test_what_sharing_everything_brought_is_said_where_there_are_several():
    for best, said, other in ((50.0, EVERYTHING, JACO), (5.0, JACO, EVERYTHING)):
        told = advice_of({"a": 10, "b": 9}, dict.fromkeys("ab", best)).recommendation
        assert said in told and other not in told
        single = advice_of({"a": 10, "b": None}, dict.fromkeys("ab", best)).recommendation
        assert said not in single and other not in single


def test_nothing_is_shared_where_all_is_refused():
    told = advice_of({"a": None}, {"a": 50})
    assert told.choice is None and told.recommendation.startswith("Share nothing with own")


def test_equal_datasets_count_once(corners, believed):
    """Two stored copies, and the main data itself among the candidates."""
    own, there, away = corners.values()
    copies = [data.save(name) for data, name in ((there, "copy-of-there"), (own, "copy-of-own"))]
    believed("same", "same")
    advice = utds.advise(own, [there, away, *copies])
    assert [candidate.name for candidate in advice.candidates] == ["there", "away"]
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
    twice = utds.advise(own, [there, there], trust_dynamics=True)
    assert twice.duplicates == ((f"{own.name} (3)", f"{own.name} (2)"),)


def test_the_function_is_public_and_the_package_has_another_name():
    assert utds.advise is adviser.advise is advice.advise


SCORE, BEST = "the source with the highest score", "the source whose best tenth of episodes returns most"
GAIN_AND_RETURN = "gain: score, and the difference of these returns", "return with a source shared"


def test_how_good_predictions_are_is_what_the_docs_measure():
    text = (Path(__file__).parents[2] / "docs" / "guides" / "advise.md").read_text(encoding="utf-8")
    held_out = dict(re.findall(r"^\| ([^|]+?) \| \*\*([\d.]+(?: of \d+)?)\*\* \|", text, flags=re.MULTILINE))
    gain, returns = (held_out[row] for row in GAIN_AND_RETURN)
    regret = dict(re.findall(r"^\| ([^|]+?) \|.*\| \**([\d.]+)\** \[[\d., ]+\] \|$", text, flags=re.MULTILINE))
    mean = dict(re.findall(r"^\| ([^|]+?) \| \**([\d.]+)\** \|.*\[[\d., ]+\] \|$", text, flags=re.MULTILINE))
    parts = {
        way: numbers
        for way, *numbers in re.findall(
            r"^\| ([^|]+?) \| \**([\d.]+)\** \| \**([\d.]+)\** \|$", text, flags=re.MULTILINE
        )
    }
    score, best, chance = (parts[way] for way in ("score", "best tenth", "at random"))
    assert [score[0], best[0], chance[0]] == [regret[way] for way in (SCORE, BEST, "one source at random")]
    assert re.findall(r"\d+\.\d+", RELIABILITY) == [
        score[0], best[0], chance[0], regret["nothing"], score[1], best[1], chance[1], gain, returns,
    ]  # fmt: skip
    assert re.findall(r"\d+\.\d", EVERYTHING) == [mean["everything"], mean[SCORE]]
    jaco = {
        way: float(re.search(rf"^\| {way} \|.*\| \**([\d.]+)\** \| [^|]+\|$", text, flags=re.MULTILINE)[1])
        for way in regret
    }
    assert "6 points" in JACO
    assert round(jaco["everything"] - jaco[SCORE]) == round(jaco["nothing"] - jaco[SCORE]) == 6


def test_what_to_expect_of_sharing_is_what_the_docs_measure():
    text = (Path(__file__).parents[2] / "docs" / "results" / "robots.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"^\| UTDS \| (shared|own) \|.*\| (\d+ of \d+) \|$", text, flags=re.MULTILINE))
    assert found["shared"] in BETTER and found["own"] in NO_BETTER
    assert re.search(r"in (\d+ of \d+) where they were not", text)[1] in NO_BETTER


def test_advice_names_the_candidate_with_the_best_episodes():
    """b has the highest best tenth: said where a is chosen, silent where b is, or where b is refused."""
    best = {"a": 50, "b": 60}
    for scores, said in (({"a": 10, "b": 9}, True), ({"b": 10, "a": 9}, False), ({"a": 10, "b": None}, False)):
        told = advice_of(scores, best).recommendation
        assert ("The best tenth of b returns more, 60" in told) == ("train with b too" in told) == said


def test_the_picture_has_a_row_for_each_dataset_and_leaves_its_width_to_the_data():
    long = "pointmass-reach-bottom-left/medium-replay"
    drawn = draw(advice_of({long: 10, "b": 4, "c": None}, {long: 5, "b": 50, "c": 50}))
    left, right = drawn.axes
    drawn.draw_without_rendering()  # lays it out
    assert left.get_position().width + right.get_position().width > 0.75  # of the figure's
    assert [text.get_text() for text in left.texts] == ["own", long, "b", "c (other dynamics)"]
    assert [bar.get_width() for bar in right.patches] == [10, 4]
    assert [bar.get_facecolor()[3] for bar in right.patches] == [0, 1]  # b alone is filled
    assert "gain" in right.get_xlabel() and left.get_ylim() == right.get_ylim()


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
    assert (advice.plan, advice.value) == (without.plan, without.value)
    assert (allowed.plan, allowed.score) == (without.candidates[0].plan, without.candidates[0].score)
    assert "Don't share there: recorded with other dynamics." in advice.recommendation
    assert "A cautious plan's return stays at 0" in advice.recommendation  # `away` never nears the reward


def test_trusted_data_is_not_checked(corners, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(advice, "checks", None)
    main(["advise", "own", "--from", "there", "--trust-dynamics", f"--out={tmp_path}/a [b]"])
    said = capsys.readouterr().out
    assert "a [b]: advice.json" in " ".join(said.split())
    assert "trusted" in said and "Share there with own" in said and "dynamics can't be told" not in said


def test_a_weak_motor_is_refused_on_the_command_line(corners, push, tmp_path, capsys, monkeypatch):
    """The whole way, from stored data to table, figure and JSON; `test_dynamics.py` has the networks of full size."""
    for name, value in (("STEPS", 500), ("WIDTH", 32)):  # they find half a motor (p = 1e-15), and doubt the rest (0.03)
        monkeypatch.setattr(dynamics, name, value)
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
    assert told["choice"] == "there" and told["recommendation"] in " ".join(said.split())
    for picture in ("advice.svg", "advice.png"):
        assert (tmp_path / picture).stat().st_size > 10_000

"""The advice as a whole: what is recommended, what is refused, and how it is told."""

import json

import pytest

from utds import advise as adviser
from utds.advise.dynamics import Check
from utds.advise.ranking import number
from utds.cli import main
from utds.cli.advise import _two_lines


@pytest.fixture
def believed(monkeypatch):
    """`believed("same", "different")`: verdicts on the candidates' dynamics, without looking at them."""

    def believe(*verdicts):
        def checks(main, candidates, seed=0):
            return [Check(data.name, v, 0.5, 0, 0, "", 1, 9) for data, v in zip(candidates, verdicts, strict=True)]

        monkeypatch.setattr(adviser, "checks", checks)

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


def test_numbers_are_short_at_any_scale():
    assert [number(x) for x in (1e-31, 0.0123, 7.25, 99.96, 2512.3, -640.4)] == [
        "0", "0.0123", "7.25", "100", "2512", "-640",
    ]  # fmt: skip
    assert [number(x, "+") for x in (3.14159, -12.5, 302.3, 0.0)] == ["+3.14", "-12.5", "+302", "0"]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("walker-run/medium-replay", ["walker-run/", "medium-replay"]),
        ("pointmass-reach-bottom-left/replay", ["pointmass-reach-", "bottom-left/replay"]),
        ("own", ["own"]),
    ],
)
def test_names_in_the_table_break_where_a_reader_would(name, lines):
    assert _two_lines(name).split("\n") == lines


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


def test_trusted_data_is_not_checked(corners, monkeypatch, capsys):
    monkeypatch.setattr(adviser, "checks", None)
    main(["advise", "own", "--from", "there", "--trust-dynamics"])
    said = capsys.readouterr().out
    assert "trusted" in said and "Share there with own" in said and "dynamics can't be told" not in said


def test_a_weak_motor_is_refused_on_the_command_line(corners, push, tmp_path, capsys):
    """The whole way, from stored data to table, figure and JSON."""
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

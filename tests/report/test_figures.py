"""Algorithms are drawn in their registered colours, which stand out from light and from dark paper."""

import re

import pytest

from utds import algorithms, report
from utds.algorithms import TD3, registry
from utds.errors import ConfigError
from utds.report import page
from utds.report.figures import PAPER, legible


@pytest.mark.parametrize(
    ("colour", "paper", "drawn"),
    [
        ("#949494", "#ffffff", "#949494"),  # 3.03:1, by WebAIM's checker
        ("#959595", "#ffffff", "#8e8e8e"),  # 2.99:1
        ("#d55e00", "#ffffff", "#d55e00"),
        ("#d55e00", "#0d1117", "#d55e00"),
        ("#000000", "#0d1117", "#666666"),  # 3.3:1; the twentieth before it, #595959, has 2.7:1
        ("#ffffff", "#000000", "#ffffff"),
    ],
)
def test_a_colour_is_moved_only_as_far_as_it_takes_to_stand_out(colour, paper, drawn):
    assert legible(colour, paper) == drawn


def test_every_algorithm_has_a_colour_of_its_own_on_either_paper():
    for paper in PAPER.values():
        colours = [legible(found.colour, paper) for found in algorithms.entries().values()]
        assert len(set(colours)) == len(colours) > 9


def test_the_page_draws_the_registered_colour(tmp_path, write_run, monkeypatch):
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))  # forgotten afterwards
    registry.register_algorithm("mine", type("Mine", (TD3,), {}), colour="#12ab9f", order=5)
    for name in ("utds", "mine"):
        write_run(tmp_path / name, "walker-walk/medium", ("walker-run/replay",), name)
    html = page.render(report.study([tmp_path]))
    for name, colour in (("utds", "#d55e00"), ("mine", "#12ab9f")):
        css = re.search(rf'<li data-algorithm="{name}">.*?class="line a\d (k\d+)"', html)[1]
        light = html.partition("@media (prefers-color-scheme: dark){.k0")[0]
        assert f".{css}{{--c:{legible(colour, PAPER['light'])}}}" in light


def test_colours_are_six_digits_and_those_without_one_get_a_free_one(monkeypatch):
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    with pytest.raises(ConfigError, match="the colour of mine is 'red'; write it as #d55e00"):
        registry.register_algorithm("mine", TD3, colour="red")
    for number in range(3):
        registry.register_algorithm(f"mine-{number}", type(f"Mine{number}", (TD3,), {}))
    colours = [found.colour for found in algorithms.entries().values()]
    assert len(set(colours)) == len(colours)

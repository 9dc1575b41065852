"""Algorithms are drawn in their registered colours, which stand out from light and from dark paper."""

import itertools
import re

import pytest

from utds import algorithms, report
from utds.algorithms import TD3, registry
from utds.errors import ConfigError
from utds.report import figures, findings, page
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


def test_long_names_stay_in_the_figure_and_off_their_neighbours(tmp_path, write_run):
    """A label with three fields in the aggregates; three sources at once, one of another kind, below the bars."""
    main = "pointmass-reach-top-left/medium"
    others = [f"pointmass-reach-{name}" for name in ("top-right/medium", "bottom-left/replay", "bottom-right/replay")]
    fields = {"width": 64, "layers": 1, "batch_size": 512}
    for name, more in (("usual", {}), ("again", {"first_seed": 1}), ("long", fields)):
        write_run(tmp_path / f"{name}-alone", main, (), "td3bc", (50.0,), **more)
        for count in (1, 2, 3):
            write_run(tmp_path / f"{name}-{count}", main, others[:count], "td3bc", (50.0 + count,), **more)
    found = report.study([tmp_path])
    (bars,) = [figures.bars(found, setting) for setting in found.settings if setting.source == "own data"]
    together = findings.aggregates(found, "final", findings.EVERYTHING)
    aggregate = figures.statistic(found, together, "mean")
    assert "batch_size=512, own data" in aggregate and "TD3+BC, own data" in aggregate
    for svg in (bars, aggregate):
        width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups())
        spans = []
        for css, x, y, words in re.findall(r'<text class="([^"]*)" x="(\S+)" y="(\S+)">(.*?)</text>', svg):
            length = 5.5 * len(words)
            left = float(x) - length * (1 if "end" in css else 0.5 if "mid" in css else 0)
            assert left >= 0 and left + length <= width and float(y) <= height, words
            spans.append((float(y), left, left + length, words))
        for (y, _, right, words), (below, left, _, more) in itertools.pairwise(sorted(spans)):
            assert below - y > 9 or left >= right, (words, more)


def test_colours_are_six_digits_and_those_without_one_get_a_free_one(monkeypatch):
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    with pytest.raises(ConfigError, match="the colour of mine is 'red'; write it as #d55e00"):
        registry.register_algorithm("mine", TD3, colour="red")
    for number in range(3):
        registry.register_algorithm(f"mine-{number}", type(f"Mine{number}", (TD3,), {}))
    colours = [found.colour for found in algorithms.entries().values()]
    assert len(set(colours)) == len(colours)

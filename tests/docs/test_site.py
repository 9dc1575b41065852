"""The documentation site in a real browser with the network off: wide and on a phone, light and dark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "index.html",
    "start/quickstart/index.html",
    "guides/data/index.html",
    "algorithms/utds/index.html",
    "results/learner/index.html",
    "reference/cli/index.html",
    "reference/python/training/index.html",
    "theory/index.html",
)
SIZES = {"wide": (1280, 900), "phone": (390, 844)}
# What sticks out of the window and can't be scrolled to, and pictures that didn't load.
LOST = """
const wide = document.documentElement.clientWidth + 1, scrolls = (e) => e && e !== document.body &&
  (["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
const text = [...document.querySelectorAll(".md-content *")].filter((e) => e.getBoundingClientRect().right > wide);
const images = [...document.querySelectorAll(".md-content img")].filter((e) => e.complete && !e.naturalWidth);
return [...text.filter((e) => !scrolls(e)), ...images].map((e) => e.outerHTML.slice(0, 80));
"""


@pytest.fixture(scope="module")
def site(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder


@pytest.fixture
def opened(browser, site):
    def show(page, size, scheme):
        width, height = SIZES[size]
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        browser.get((site / page).as_uri())
        return browser

    return show


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_nothing_sticks_out_and_every_picture_shows(opened, size, scheme):
    for page in PAGES:
        browser = opened(page, size, scheme)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= SIZES[size][0], page
        assert browser.execute_script(LOST) == [], page


def test_pages_follow_the_system_and_keep_figures_on_white(opened):
    colour = "return getComputedStyle(document.querySelector(arguments[0])).backgroundColor"
    page = "start/quickstart/index.html"
    light = opened(page, "wide", "light").execute_script(colour, "body")
    dark = opened(page, "wide", "dark")
    assert dark.execute_script(colour, "body") != light
    assert dark.execute_script(colour, ".md-content img") == "rgb(255, 255, 255)"

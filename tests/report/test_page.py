"""The page in a real browser: it loads from a file with the network off, everything shows, filters and sorting work."""

import json
import time

import pytest

from utds import algorithms
from utds.cli import main
from utds.report.figures import PAPER, legible

DESKTOP, PHONE = (1280, 900), (390, 844)
LUMINANCE = """
const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
function rgb(colour, under) {                       // any CSS colour, over another one
  canvas.fillStyle = `rgb(${under})`; canvas.fillRect(0, 0, 1, 1);
  canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
}
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
function behind(element) {
  const chain = [];
  for (let e = element; e; e = e.parentElement) chain.unshift(getComputedStyle(e).backgroundColor);
  return chain.reduce((under, colour) => rgb(colour, under), [255, 255, 255]);
}
const found = [];
for (const e of document.querySelectorAll("p, h1, h2, h3, td, th, li, label, figcaption, a, summary, svg text")) {
  if (!e.checkVisibility() || !e.textContent.trim()) continue;
  const under = behind(e), style = getComputedStyle(e);
  const [a, b] = [luminance(rgb(e.closest("svg") ? style.fill : style.color, under)), luminance(under)];
  found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.tagName + " " + e.textContent.trim().slice(0, 40)]);
}
return found.sort((x, y) => x[0] - y[0])[0];
"""


@pytest.fixture(scope="module")
def page(benchmark_tree, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    main(["report", str(benchmark_tree), "-o", str(path)])
    return path


@pytest.fixture
def opened(browser, page):
    """The page at the size of a desktop, or as `opened(size, dark)`."""

    def show(size=DESKTOP, dark=False):
        width, height = size
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get(page.as_uri())
        return browser

    return show


def choose(browser, name, value):
    browser.execute_script(
        "const s = document.querySelector(`select[name=${arguments[0]}]`); s.value = arguments[1];"
        "s.dispatchEvent(new Event('input', {bubbles: true}))",
        name,
        value,
    )


def shown(browser, selector):
    script = "[...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility()).map((e) => e.textContent)"
    return browser.execute_script(f"return {script}", selector)


def test_it_needs_nothing_but_itself(opened, page):
    browser = opened()
    browser.get_log("performance")
    browser.get(page.as_uri())
    time.sleep(0.2)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert sent == {page.as_uri()}
    assert browser.get_log("browser") == []
    assert browser.find_element("css selector", ".verdict h2").text.startswith("With UTDS, sharing helps")


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_every_figure_is_visible(opened, size):
    browser = opened(size)
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('figure svg:not(.swatch), figure table')]"
        ".filter((e) => !e.closest('[data-which=best]'))"
        ".map((e) => [e.getBoundingClientRect().width, e.getBoundingClientRect().height])"
    )
    # 4 maps; bars 4; aggregates 4 and profiles 2; curves 20; uncertainty 4; β2 1
    assert len(sizes) == 40
    assert all(width > 100 and height > 60 for width, height in sizes)


def test_nothing_overflows_a_phone(opened):
    browser = opened(PHONE)
    assert browser.execute_script("return document.documentElement.scrollWidth") == PHONE[0]
    for name in ("best", "final"):
        choose(browser, "which", name)
        assert browser.execute_script("return document.documentElement.scrollWidth") == PHONE[0]


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_is_readable(opened, dark):
    """The least contrast of any text with what lies behind it; WCAG asks for 4.5."""
    contrast, where = opened(dark=dark).execute_script(LUMINANCE)
    assert contrast >= 4.5, where


def test_dark_mode_is_dark(opened):
    colour = "return getComputedStyle(document.body).backgroundColor"
    assert opened(dark=True).execute_script(colour) != opened(dark=False).execute_script(colour)


@pytest.mark.parametrize("dark", [False, True])
def test_algorithms_have_their_registered_colours_and_stand_out_from_the_paper(opened, dark):
    script = (
        "return getComputedStyle(document.querySelector(`.legend li[data-algorithm=${arguments[0]}] .line`)).stroke"
    )
    found = {name: opened(dark=dark).execute_script(script, name) for name in ("utds", "cql", "cds", "cds-zero")}
    for name, stroke in found.items():
        expected = legible(algorithms.entry(name).colour, PAPER["dark" if dark else "light"])
        assert stroke == "rgb({}, {}, {})".format(*bytes.fromhex(expected[1:])), name
    assert len(set(found.values())) == len(found)


def test_filters_narrow_the_table_and_the_figures(opened):
    browser = opened()
    rows, panels = len(shown(browser, "#results tbody tr")), len(shown(browser, "figure[data-item]"))
    choose(browser, "task", "walker-walk")
    assert 0 < len(shown(browser, "#results tbody tr")) < rows
    assert 0 < len(shown(browser, "figure[data-item]")) < panels
    choose(browser, "kind", "expert")
    choose(browser, "source", "run")
    choose(browser, "algorithm", "cds")
    assert len(shown(browser, "#results tbody tr")) == 1
    assert browser.find_element("id", "count").text == f"1 of {rows} rows"
    assert {name.strip() for name in shown(browser, "#bars ~ .legend li")} == {"CDS", "run"}
    assert shown(browser, ".map td.up, .map td.down") and len(shown(browser, ".map td.up, .map td.down")) == 1
    browser.execute_script("document.querySelector('.filters').reset()")
    time.sleep(0.1)
    assert len(shown(browser, "#results tbody tr")) == rows


def test_best_scores_take_the_place_of_final_ones(opened):
    browser = opened()
    assert len(shown(browser, ".verdict")) == 1
    choose(browser, "which", "best")
    (text,) = shown(browser, ".verdict")
    assert "best scores along training" in text


def test_sorting(opened):
    browser = opened()
    (header,) = (th for th in browser.find_elements("css selector", "#results th") if th.text.startswith("final"))
    column = browser.execute_script("return [...arguments[0].parentElement.children].indexOf(arguments[0])", header)
    script = (
        "return [...document.querySelectorAll('#results tbody tr')].map((r) => r.children[arguments[0]].dataset.value)"
    )
    for reverse, name in ((False, "ascending"), (True, "descending")):
        browser.execute_script("arguments[0].querySelector('button').click()", header)
        values = [float(value) for value in browser.execute_script(script, column)]
        assert values == sorted(values, reverse=reverse) and header.get_attribute("aria-sort") == name
    gain = browser.find_elements("css selector", "#results th")[9]
    browser.execute_script("arguments[0].querySelector('button').click()", gain)
    values = browser.execute_script(script, 9)
    assert values[-1] == "" and values[0] != ""  # rows without a gain stay at the end


def test_names_from_files_are_text_not_markup(opened, browser, write_run, tmp_path):
    write_run(
        tmp_path / "run", "walker-walk/<img src=x onerror=alert(1)>", ("walker-run/replay",), "utds", (50.0, 60.0)
    )
    main(["report", str(tmp_path), "-o", str(tmp_path / "page.html")])
    browser.get((tmp_path / "page.html").as_uri())
    assert browser.find_elements("css selector", "img") == []
    assert browser.get_log("browser") == []

"""What `make bench` and `make test` say at their end."""

from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]


def test_a_benchmark_that_misses_a_requirement_by_more_than_its_noise_ends_with_1(load_file, capsys):
    common = load_file(ROOT / "benchmarks" / "common.py")
    common.require("fast enough", 2.75, least=3, noise=0.1)
    common.require("small enough", 1.1, most=1.0, noise=0.1)
    common.require("not required", 0.1, noise=0)
    common.verdict()
    common.require("speed", 2.6, least=3, noise=0.1)
    common.require("size", float("nan"), most=1, noise=0.1)
    with pytest.raises(SystemExit) as exit:
        common.verdict()
    assert exit.value.code == 1
    assert capsys.readouterr().out.splitlines() == [
        "✗ speed: 2.6, required at least 3 (noise 10%)",
        "✗ size: nan, required at most 1 (noise 10%)",
    ]


def test_every_benchmark_ends_with_its_verdict():
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "def main" in text:
            assert 'if __name__ == "__main__":\n    main()\n    verdict()\n' in text, path.name
            assert "require(" in text, path.name


def test_a_run_of_the_tests_says_which_groups_were_skipped_and_how_to_enable_them(pytestconfig):
    said: list[str] = []
    skips = [
        SimpleNamespace(
            longrepr=("test_ray.py", 10, "Skipped: the ray engine needs the extra: pip install 'utds[ray]'")
        ),
        *[SimpleNamespace(longrepr=("test_page.py", 14, "Skipped: no browser: apt-get install chromium"))] * 2,
        SimpleNamespace(longrepr=("test_x.py", 1, "Skipped: the moon is full")),
    ]
    reporter = SimpleNamespace(stats={"skipped": skips}, section=said.append, line=said.append)
    conftest = pytestconfig.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    summary = conftest.pytest_terminal_summary
    summary(reporter)
    assert said[0] == "skipped, and how to enable it"
    assert said[1].startswith("1 × the Ray engine: pip install") and said[2].startswith("2 × pages in a browser")
    assert said[3] == "1 × Skipped: the moon is full"
    said.clear()
    summary(SimpleNamespace(stats={}, section=said.append, line=said.append))
    assert said == []

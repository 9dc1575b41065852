"""From run directories to findings: scores that were put in come out, and nothing odd passes unnamed."""

import csv
import dataclasses
import itertools
import json
import math
import re

import numpy as np
import pytest
from scipy import stats

from utds import algorithms, report
from utds.algorithms import CQL, registry
from utds.errors import DataError
from utds.report import aggregate, findings, table, text
from utds.report.aggregate import Interval
from utds.report.load import BETA
from utds.report.table import ALL, Setting

MAIN, OTHER = "walker-walk/medium", ("walker-run/replay",)


def alter(folder, **config):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))


@pytest.fixture
def tree(write_run, tmp_path):
    """`tree(name=(shared, algorithm, scores), …)` makes run directories below `tmp_path`."""

    def write(**runs):
        for name, (shared, algorithm, scores) in runs.items():
            write_run(tmp_path / name, MAIN, shared, algorithm, scores)

    return write


def test_intervals_in_words():
    assert text.interval(Interval(-1.25, -2.06, 0.4)) == "−1.2 [−2.1, 0.4]"
    assert text.interval(Interval(-0.01, -0.04, 0.02)) == "0.0 [0.0, 0.0]"
    assert text.interval(Interval(3.0, -0.01, 6.1), plus=True) == "+3.0 [0.0, +6.1]"
    assert text.interval(Interval(3.0, math.nan, math.nan)) == "3.0"


def test_gain_is_what_was_put_in(tmp_path, tree):
    tree(
        a=((), "utds", (40, 45, 50)),
        b=(OTHER, "utds", (70, 75, 80)),
        c=(OTHER, "cql", (10, 15, 20)),
        d=((), "cql", (30, 30, 30)),
    )
    found = report.study([tmp_path])
    assert found.algorithms == ("utds", "cql") and not found.warnings and not found.missing
    ours, theirs = findings.gain(found, "utds"), findings.gain(found, "cql")
    assert ours.gain.value == pytest.approx(30) and ours.probability.value == 1
    assert theirs.gain.value == pytest.approx(-15) and theirs.probability.value == 0
    assert ours.gain.low < 30 < ours.gain.high
    assert text.title(found, ours) == "With UTDS, sharing helps: +30.0 points on average (3 seeds, 10,000 steps)"
    assert text.title(found, theirs) == "With CQL, sharing hurts: −15.0 points on average (3 seeds, 10,000 steps)"


def test_a_gain_near_zero_is_not_said_to_help(tmp_path, tree):
    """Sure as it is, half a point is no help: the interval's lower end must be well above 0."""
    tree(a=((), "utds", (40.0, 40.01, 40.02)), b=(OTHER, "utds", (40.5, 40.51, 40.52)))
    gain = findings.gain(report.study([tmp_path]), "utds")
    assert gain.gain.low > 0.3 and gain.verdict == "unclear"


@pytest.mark.parametrize("change", [-0.03, 0.0, 0.03])
def test_a_gain_that_is_shown_as_nothing_neither_raises_nor_lowers(tmp_path, tree, change):
    tree(a=((), "utds", (40.0, 42.0)), b=(OTHER, "utds", (40.0 + change, 42.0 + change)))
    found = report.study([tmp_path])
    said = text.sentence(found, findings.gain(found, "utds"))
    assert "changes the normalised score by 0.0 points" in said and "Nowhere is the mean lower" in said


def test_algorithms_are_called_by_their_registered_labels(tmp_path, tree):
    tree(a=((), "cql", (40, 42)), b=(OTHER, "cds-zero", (50, 52)), c=(OTHER, "utds", (60, 62)))
    found = report.study([tmp_path])
    page, markdown = report.page.render(found), text.to_markdown(found)
    said = text.sentence(found, findings.gain(found, "cds-zero"))
    label = algorithms.entry("cds-zero").label
    assert said.startswith(f"With {label}, ") and "against CQL on" in said
    assert f'<option value="cds-zero">{label}</option>' in page and f"<td>{label}</td>" in page
    assert not re.search(">[^<]*cds-zero[^<]*<", page.partition('id="numbers"')[0])  # commands are below
    assert "cds-zero" not in markdown and "| UTDS |" in markdown


def test_final_and_best_differ_where_a_run_falls(tmp_path, write_run):
    folder = write_run(tmp_path / "run", MAIN, OTHER, "utds", (80.0,))
    lines = (folder / "evaluations.csv").read_text().splitlines()
    lines[3] = "3000,0,950.0,3.0,95.0"
    (folder / "evaluations.csv").write_text("\n".join(lines) + "\n")
    (outcome,) = report.study([tmp_path]).outcomes.values()
    assert outcome.final.tolist() == [80] and outcome.best.tolist() == [95]


def test_the_best_of_a_seed_counts_at_whatever_step_it_was(tmp_path):
    """Seeds that were evaluated at other steps have only the last in common; the CSV tells the same bests."""
    path = tmp_path / "results.csv"
    path.write_text(
        "domain,task,kind,source,algorithm,seed,steps,final_return,evaluations\n"
        "d,d-a,k,own data,utds,0,20,1,10:9:90 20:1:10\n"
        "d,d-a,k,own data,utds,1,20,1,5:8:80 20:1:10\n"
    )
    found = report.study([path])
    (outcome,) = found.outcomes.values()
    assert outcome.steps.tolist() == [20] and outcome.final.tolist() == [10, 10]
    assert outcome.best.tolist() == outcome.runs("best").tolist() == [90, 80]
    assert [float(row["best_score"]) for row in csv.DictReader(table.to_csv(found).splitlines())] == [90, 80]


@pytest.mark.parametrize(
    ("algorithm", "single"), [("utds", "pbrl"), ("cds", "cql"), ("cds-zero", "cql"), ("uds", "cql")]
)
def test_single_task_counterparts(tmp_path, algorithm, single, write_run, tree):
    """CDS without sharing is CQL, UTDS without it PBRL; the algorithm's own run comes first."""
    tree(shared=(OTHER, algorithm, (60,)), single=((), single, (50,)))
    found = report.study([tmp_path])
    (setting,) = (s for s in found.settings if s.source == "run")
    assert found.single(setting, algorithm).algorithm == single
    write_run(tmp_path / "own", MAIN, (), algorithm, (55,))
    found = report.study([tmp_path])
    assert found.single(setting, algorithm).algorithm == algorithm


def test_what_is_registered_with_an_algorithm_counts(tmp_path, tree, monkeypatch):
    """Its single-task form, its place in the order and its label; another one that reads nothing shared."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    options = {"single_task": "cql", "label": "My Own", "order": -1}
    registry.register_algorithm("mine", dataclasses.make_dataclass("Mine", [], bases=(CQL,), frozen=True), **options)
    alone = dataclasses.make_dataclass("Alone", [], bases=(CQL,), frozen=True)
    registry.register_algorithm("alone", alone, reads_shared=False)
    tree(cql=((), "cql", (50, 51)), mine=(OTHER, "mine", (60, 61)), alone=(OTHER, "alone", (40, 41)))
    found = report.study([tmp_path])
    assert found.algorithms == ("mine", "cql", "alone")
    setting = Setting("walker", "walker-walk", "medium", "run")
    assert found.single(setting, "mine").algorithm == "cql"
    assert (setting.main, "alone") in found.outcomes and found.sharing == ("mine",)
    assert text.title(found, findings.gain(found, "mine")).startswith("With My Own, sharing helps")


def test_pbrl_reads_its_own_data_whatever_is_shared(tmp_path, tree):
    tree(run=(OTHER, "pbrl", (50,)))
    assert [s.source for s in report.study([tmp_path]).settings] == ["own data"]


def test_seeds_of_several_folders_join(tmp_path, write_run):
    write_run(tmp_path / "zero", MAIN, OTHER, "utds", (60.0,))
    folder = write_run(tmp_path / "one", MAIN, OTHER, "utds", (70.0,))
    for name in ("evaluations.csv", "metrics.csv"):
        rows = [line.split(",") for line in (folder / name).read_text().splitlines()]
        text = "\n".join(",".join([r[0], "1", *r[2:]] if r[0] != "step" else r) for r in rows)
        (folder / name).write_text(text + "\n")
    alter(folder, seeds=[1])
    (outcome,) = report.study([tmp_path]).outcomes.values()
    assert list(outcome.seeds) == [0, 1] and outcome.final.tolist() == [60, 70]
    assert [c.split("--first-seed ")[1][0] for c in outcome.commands] == [
        "1",
        "0",
    ]  # folders in the order of their names


def test_datasets_that_end_alike_are_no_seeds_of_one_setting(tmp_path, write_run):
    for seed, day in enumerate(("monday", "tuesday")):
        folder = write_run(tmp_path / day, MAIN, (), "utds", (60.0,), first_seed=seed)
        alter(folder, sources=[{"id": f"{day}/medium", "digest": day, "transitions": 1000}])
    kinds = {setting.kind: list(c.seeds) for (setting, _), c in report.study([tmp_path]).outcomes.items()}
    assert kinds == {"monday/medium": [0], "tuesday/medium": [1]}


def test_missing_cells_and_seeds_are_named(tmp_path, tree):
    tree(a=((), "utds", (40, 50)), b=(OTHER, "utds", (70,)), c=(("walker-flip/replay",), "cql", (10, 20)))
    assert set(report.study([tmp_path]).missing) == {
        "UTDS on walker-walk/medium + flip",
        "CQL on walker-walk/medium + run",
        "CQL on walker-walk/medium, nothing shared",
        "UTDS on walker-walk/medium + run: seed 1",
    }


def test_aggregates_compare_the_same_settings(benchmark_tree, tmp_path, write_run):
    found = report.study([benchmark_tree])
    together = findings.aggregates(found, "final", findings.EVERYTHING)
    assert len(together.settings) == 12 and all(setting.pairs for setting in together.settings)
    shared = [row for row in together.rows if not row.alone]
    assert [row.algorithm for row in shared] == ["utds", "cql", "cds", "cds-zero"]
    for row in shared:
        runs = np.array([found.outcomes[s, row.algorithm].final for s in together.settings])
        assert row.statistics["mean"].value == pytest.approx(runs.mean())
        assert row.statistics["median"].value == pytest.approx(np.median(runs.mean(axis=1)))
        assert row.statistics["gap to 100"].value == pytest.approx(100 - np.minimum(runs, 100).mean())
        assert row.statistics["gap to 50"].value == pytest.approx(50 - np.minimum(runs, 50).mean())
    write_run(tmp_path / "bc", "walker-stand/medium", OTHER, "bc", (1.0,))
    together = findings.aggregates(report.study([benchmark_tree, tmp_path]), "final", findings.EVERYTHING)
    assert together.left_out == ("bc",) and len(together.settings) == 12


def test_all_sources_at_once_have_a_column(benchmark_tree):
    sources = {s.source for s in report.study([benchmark_tree]).settings}
    assert sources == {"own data", "stand", "walk", "run", "flip", ALL}


@pytest.mark.parametrize(
    ("shared", "source"),
    [
        (("walk/replay", "run/replay", "flip/replay"), ALL),
        (("walk/replay", "run/replay"), "run + walk"),
        (("walk/replay", "walk/medium"), "walk + walk/medium"),
        (("walk/replay", "run/replay", "flip/medium"), "flip/medium + run + walk"),
    ],
)
def test_all_others_are_all_tasks_of_the_robot(tmp_path, write_run, shared, source):
    """Whatever else is in the tree; and a CSV tells which they are, so nothing is taken for all of another tree."""
    write_run(tmp_path / "run", "walker-stand/medium", [f"walker-{name}" for name in shared], scores=(50.0,))
    assert [setting.source for setting in report.study([tmp_path]).settings] == [source]
    path = tmp_path / "results.csv"
    path.write_text(table.to_csv(report.study([tmp_path])))
    assert next(csv.DictReader(path.read_text().splitlines()))["source"] == " + ".join(
        sorted(n.removesuffix("/replay") for n in shared)
    )
    write_run(tmp_path / "other", "walker-stand/medium", ["walker-walk/medium"], scores=(50.0,), first_seed=1)
    again = report.study([tmp_path / "other", path])
    assert {setting.source for setting in again.settings} == {source, "walk/medium"}


def test_a_csv_of_an_earlier_version_says_all_others(tmp_path, write_run):
    path = tmp_path / "results.csv"
    head = "domain,task,kind,source,algorithm,seed,steps,final_return\n"
    path.write_text(head + f"walker,walker-stand,medium,{ALL},utds,7,10000,500\n")
    shared = [f"walker-{name}/replay" for name in ("walk", "run", "flip")]
    write_run(tmp_path / "run", "walker-stand/medium", shared, scores=(50.0,))
    (outcome,) = report.study([tmp_path / "run", path]).outcomes.values()
    assert outcome.setting.source == ALL and list(outcome.seeds) == [0, 7]


def test_ablation_of_beta(benchmark_tree):
    found = report.study([benchmark_tree])
    (ablation,) = findings.ablations(found)
    assert ablation.field == next(iter(BETA)) and ablation.values == (0.5, 1.0, 3.0, 5.0)
    (((setting, label), line),) = ablation.lines.items()
    assert (str(setting), label) == ("walker-walk/medium + run", "utds")
    assert [line[i].final.mean() for i in (0, 1, 3)] == [42, 72, 67]
    assert "utds · beta_ood=3.0" not in found.algorithms  # compared among themselves alone


def test_ablations_of_two_fields_are_a_line_for_each_value_of_the_other(tmp_path, write_run):
    for initial, decay in itertools.product((1.0, 3.0), (0.5, 0.9)):
        scores = (10 * initial + 10 * decay,)
        write_run(tmp_path / f"{initial}-{decay}", MAIN, OTHER, scores=scores, beta_ood=initial, beta_ood_decay=decay)
    zero = write_run(tmp_path / "zero", MAIN, OTHER, scores=(99.0,), beta_ood=3.0, beta_ood_decay=0.5)
    alter(zero, rewards="zero")  # another question: no point of these lines
    found = report.study([tmp_path])
    initial, decay = findings.ablations(found)
    lines = {label: [outcome.final.item() for outcome in line] for (_, label), line in initial.lines.items()}
    assert lines == {"utds": [15, 35], "utds · beta_ood_decay=0.9": [19, 39]}
    lines = {label: [outcome.final.item() for outcome in line] for (_, label), line in decay.lines.items()}
    assert lines == {"utds": [35, 39], "utds · beta_ood=1.0": [15, 19]}
    assert "walker-walk/medium + run, UTDS · beta_ood=1.0" in report.page.render(found)


@pytest.mark.parametrize(
    "asked", [{"weights": "dynamics:floor=0.05,seed=0"}, {"sampling": "episodes"}, {"rewards": "zero"}], ids=str
)
def test_runs_on_pools_of_other_kinds_never_share_a_cell(tmp_path, write_run, asked):
    """Nor where a preset's name stands for the fields; and own data alone is the same for both where it is so."""
    write_run(tmp_path / "alone", MAIN, (), scores=(20.0,))
    write_run(tmp_path / "0", MAIN, OTHER, scores=(50.0,))
    write_run(tmp_path / "1", MAIN, OTHER, scores=(52.0,))
    paper = algorithms.to_config(algorithms.make("utds", preset="paper"))
    for name, algorithm in (("fast", {}), ("paper", {"algorithm": paper})):
        alter(write_run(tmp_path / name, MAIN, OTHER, scores=(90.0, 94.0)), **asked, **algorithm)
    alter(write_run(tmp_path / "plain", MAIN, OTHER, scores=(70.0,)), algorithm=paper)
    found = report.study([tmp_path])
    ((name, value),) = asked.items()
    finals = {label: outcome.final.tolist() for (s, label), outcome in found.outcomes.items() if s.source == "run"}
    words = f"{name}={value}"
    assert finals == {
        "utds": [50],
        f"utds · {words}": [90, 94],
        f"utds · paper, {words}": [90, 94],
        "utds · paper": [70],
    }
    (setting,) = {setting for setting, _ in found.outcomes if setting.source == "run"}
    alone = found.single(setting, f"utds · {words}")
    assert (alone is None) == ("sampling" in asked) and (alone is None or alone.final.tolist() == [20])


def test_a_score_that_lacks_somewhere_comes_from_the_return(tmp_path, write_run):
    """walker-walk scores 0 at 32 and 100 at 971."""
    folder = write_run(tmp_path / "run", MAIN, OTHER, scores=(50.15,))
    head, first, *others = (folder / "evaluations.csv").read_text().splitlines()
    (folder / "evaluations.csv").write_text("\n".join([head, first.rpartition(",")[0] + ",", *others]) + "\n")
    found = report.study([tmp_path])
    (outcome,) = found.outcomes.values()
    assert outcome.curves.shape == (1, 10) and outcome.final.tolist() == pytest.approx([50])


def test_unlike_runs_never_share_a_cell(tmp_path, write_run):
    for seed, size in enumerate((256, 256, 512)):
        shared = ("walker-run/replay", "walker-flip/replay")[: 1 + seed % 2]
        write_run(tmp_path / str(seed), MAIN, shared, batch_size=size)
    assert set(report.study([tmp_path]).algorithms) == {"utds", "utds · batch_size=512"}


def test_other_steps_versions_and_data_are_named(tmp_path, write_run, tree):
    tree(a=((), "utds", (40,)), b=(OTHER, "utds", (70,)))
    write_run(tmp_path / "long", MAIN, OTHER, "cql", (99.0,), steps=20_000)
    write_run(tmp_path / "old", MAIN, OTHER, "cds", (9.0,), version="0.0.9")
    folder = write_run(tmp_path / "other", MAIN, OTHER, "bc", (9.0,))
    config = json.loads((folder / "config.json").read_text())
    config["sources"][1]["digest"] = "another"
    (folder / "config.json").write_text(json.dumps(config))
    found = report.study([tmp_path])
    assert found.warnings == [
        "the runs were made by different versions of utds: 0.0.9 (1 runs), 0.1.0 (4 runs)",
        "walker-run/replay stands for 2 different datasets in these runs",
        "CQL · 20,000 steps: 1 runs of another number of steps are listed but not compared",
    ]
    assert "cql · 20,000 steps" not in found.algorithms
    assert any(label == "cql · 20,000 steps" for _, label in found.outcomes)


def test_own_data_alone_may_take_fewer_steps(tmp_path, write_run):
    write_run(tmp_path / "alone", MAIN, (), "utds", (40.0, 42.0), steps=3_000)
    write_run(tmp_path / "shared", MAIN, OTHER, "utds", (70.0, 72.0))
    found = report.study([tmp_path])
    assert found.warnings == [] and found.algorithms == ("utds",)
    assert findings.gain(found, "utds").gain.value == pytest.approx(30)


def _truncate(path):
    path.write_text(path.read_text()[:-9])


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda run: (run / "config.json").unlink(), "half-written: it has no config.json"),
        (lambda run: _truncate(run / "config.json"), "no valid JSON"),
        (lambda run: (run / "config.json").write_text("[]"), "the whole is of type list, where it must be an object"),
        (lambda run: (run / "config.json").write_text('{"steps": 1}'), "config.json lacks the field algorithm"),
        (lambda run: (run / "config.json").write_text("[" * 100_000), "is no JSON that utds wrote"),
        (lambda run: (run / "result.json").unlink(), "unfinished"),
        (lambda run: (run / "provenance.json").unlink(), "provenance.json"),
        (lambda run: (run / "evaluations.csv").unlink(), "no evaluation of seed 0 at its last step 10000"),
        (lambda run: _truncate(run / "evaluations.csv"), "no evaluation of seed 0 at its last step 10000"),
        (
            lambda run: (run / "evaluations.csv").write_bytes(b"\x00\xff\xfe"),
            "evaluations.csv holds bytes that are no text",
        ),
        (lambda run: (run / "evaluations.csv").write_text("step,seed,return\nx,0,1\n"), "line 2: step is 'x'"),
        (
            lambda run: (run / "evaluations.csv").write_text("step,seed,return\n1,0\n"),
            "line 2: 2 cells under 3 headings",
        ),
        (lambda run: (run / "evaluations.csv").write_text("step,seed,return\n10000,0,nan\n"), "no number"),
        (
            lambda run: (run / "evaluations.csv").write_text("step,seed,return\n9,0,1\n9,0,1\n10000,0,1\n"),
            "steps of seed 0 that don't rise",
        ),
    ],
)
def test_broken_runs_are_named_and_left_out(tmp_path, harm, says, write_run):
    write_run(tmp_path / "good", MAIN, OTHER, "utds", (70.0,))
    harm(write_run(tmp_path / "bad", MAIN, (), "utds", (50.0,)))
    found = report.study([tmp_path])
    (line,) = found.warnings
    assert says in line and "bad" in line and "\n" not in line
    assert len(found.outcomes) == 1


def test_cells_that_failed_or_stopped_say_why_and_what_to_do(tmp_path, write_run):
    """One diverged, one was refused before it began, one was stopped, one is of a search: that isn't reported on."""
    write_run(tmp_path / "good", MAIN, OTHER, "utds", (70.0,))
    for name in ("diverged", "refused", "stopped", "trial"):
        folder = write_run(tmp_path / name, MAIN, (), "utds", (50.0,))
        (folder / "result.json").unlink()
        (folder / "cell.json").write_text(json.dumps({"trial": 3} if name == "trial" else {"command": "utds train"}))
        if name != "stopped":
            (folder / "error.json").write_text(json.dumps({"error": f"it is {name}"}))
    for file in set((tmp_path / "refused").iterdir()) - {tmp_path / "refused" / "error.json"}:
        file.unlink()
    assert report.study([tmp_path]).warnings == [
        f"{tmp_path / 'diverged'} failed: it is diverged",
        f"{tmp_path / 'refused'} failed: it is refused",
        f"{tmp_path / 'stopped'} is unfinished: run its matrix again",
    ]


def test_nothing_to_report_is_one_line(tmp_path, write_run):
    with pytest.raises(DataError, match="no finished run below"):
        report.study([tmp_path])
    with pytest.raises(
        DataError, match=r"there is no file or folder .*nowhere\.csv; name folders with runs, or CSV files"
    ):
        report.study([tmp_path / "nowhere.csv"])
    (write_run(tmp_path / "bad", MAIN) / "result.json").unlink()
    with pytest.raises(DataError, match=r"the first of 1 that can't be used: .*bad is unfinished"):
        report.study([tmp_path])


def test_one_seed_gives_no_interval_and_no_verdict(tmp_path, tree):
    tree(a=((), "utds", (40,)), b=(OTHER, "utds", (70,)))
    found = report.study([tmp_path])
    gain = findings.gain(found, "utds")
    assert gain.verdict == "unknown" and math.isnan(gain.gain.low)
    assert "run more seeds" in text.sentence(found, gain) and "[nan" not in report.page.render(found)
    assert "Nowhere is the mean lower with sharing" in text.sentence(found, gain)


def test_one_seed_on_many_main_datasets_gives_an_interval_over_them(tmp_path, write_run):
    """Gains of 10, 20, 30, 40 and, of two sources, 45 and 55: ± 2.776·√(250/5), from the means of the five datasets."""
    kinds = ("random", "medium", "replay", "medium-replay", "expert")
    for kind, gain in zip(kinds, (10.0, 20.0, 30.0, 40.0, 45.0), strict=True):
        write_run(tmp_path / f"{kind}-alone", f"walker-walk/{kind}", (), "utds", (20.0,))
        write_run(tmp_path / kind, f"walker-walk/{kind}", OTHER, "utds", (20.0 + gain,))
    write_run(tmp_path / "second", "walker-walk/expert", ("walker-flip/replay",), "utds", (75.0,))
    found = report.study([tmp_path])
    gain = findings.gain(found, "utds")
    assert gain.over == "data" and gain.verdict == "helps"
    half = 2.7764 * math.sqrt(np.var([10, 20, 30, 40, 50], ddof=1) / 5)
    assert gain.gain == pytest.approx((200 / 6, 200 / 6 - half, 200 / 6 + half), rel=1e-4)
    assert "95 % interval over main datasets" in text.sentence(found, gain)
    assert "sharing helps: +33.3 points on average (1 seed" in text.title(found, gain)


def test_one_seed_on_many_main_datasets_gives_aggregates_intervals_over_them(tmp_path, write_run):
    """For a mean over independent datasets that is nearly Student's interval."""
    values = {
        "random": 10.0,
        "medium": 35.0,
        "replay": 50.0,
        "medium-replay": 62.0,
        "medium-expert": 80.0,
        "expert": 95.0,
    }
    for kind, score in values.items():
        write_run(tmp_path / f"{kind}-alone", f"walker-walk/{kind}", (), "utds", (20.0,))
        write_run(tmp_path / kind, f"walker-walk/{kind}", OTHER, "utds", (score,))
    found = report.study([tmp_path])
    together = findings.aggregates(found, "final", findings.scopes(found)[0])
    assert together.over == "data"
    shared, alone = together.rows
    student = aggregate.student(list(values.values()), center=float(np.mean(list(values.values()))))
    assert shared.statistics["mean"] == pytest.approx(student, rel=0.05)
    assert alone.statistics["IQM"] == pytest.approx((20, 20, 20))
    assert "intervals are over main datasets" in text.to_markdown(found)
    for kind, score in values.items():  # a second seed of all that shares, then of the rest too
        write_run(tmp_path / f"{kind}-second", f"walker-walk/{kind}", OTHER, "utds", (score,), first_seed=1)
    found = report.study([tmp_path])
    together = findings.aggregates(found, "final", findings.scopes(found)[0])
    assert together.over == "data" and together.rows[0].statistics["mean"] == pytest.approx(student, rel=0.05)
    for kind in values:
        write_run(tmp_path / f"{kind}-alone-second", f"walker-walk/{kind}", (), "utds", (30.0,), first_seed=1)
    write_run(tmp_path / "third", "walker-walk/sorted", OTHER, "utds", (50.0,))  # one that has no second seed yet
    write_run(tmp_path / "third-alone", "walker-walk/sorted", (), "utds", (20.0, 30.0))
    found = report.study([tmp_path])
    assert findings.aggregates(found, "final", findings.scopes(found)[0]).over == "seeds"


def test_the_gains_interval_knows_that_one_run_alone_stands_against_several(tmp_path, write_run):
    """Four runs of each of three sources against two alone: most of the variance is theirs, and half of it unseen.

    All settings have the variance 20/3, so the gain's is known, and its degrees of freedom are Satterthwaite's.
    """
    kinds = ("random", "medium", "replay", "medium-replay", "expert")
    spread, alone = np.array([-3.0, -1.0, 1.0, 3.0]), np.sqrt(10 / 3) * np.array([-1.0, 1.0])
    for kind, other in itertools.product(kinds, (None, "stand", "run", "flip")):
        shared = () if other is None else (f"walker-{other}/replay",)
        write_run(
            tmp_path / f"{kind}-{other}", f"walker-walk/{kind}", shared, scores=50 + (10 + spread if other else alone)
        )
    gain = findings.gain(report.study([tmp_path]), "utds").gain
    seen = np.repeat([1 / 15**2 * 3 / 16, 1 / 5**2 * 1 / 4], [15, 5])  # of σ²
    freedom = seen.sum() ** 2 / (seen**2 / np.repeat([3, 1], [15, 5])).sum()
    half = stats.t.ppf(0.975, freedom) * np.sqrt(20 / 3 * (1 / 15 / 4 + 1 / 5 / 2))
    assert (gain.high - gain.low) / 2 == pytest.approx(half, rel=0.04)


def test_the_sentence_names_where_sharing_hurts(tmp_path, write_run):
    changes = {"stand": 5.0, "run": -3.0, "flip": -20.0, "walk": -1.0}
    for task, change in changes.items():
        main = f"walker-{task}/medium"
        write_run(tmp_path / f"{task}-alone", main, (), "utds", (50.0, 50.0))
        other = "walker-walk/replay" if task != "walk" else "walker-run/replay"
        write_run(tmp_path / f"{task}-shared", main, (other,), "utds", (50.0 + change, 50.0 + change))
    found = report.study([tmp_path])
    said = text.sentence(found, findings.gain(found, "utds"))
    listed = (
        "walker-flip/medium with walk (−20.0), walker-run/medium with walk (−3.0), walker-walk/medium with run (−1.0)"
    )
    assert said.endswith(f"The mean is lower with sharing in 3 of 4 settings: {listed}.")


def test_tasks_without_reference_are_listed_as_returns_and_not_compared(tmp_path, write_run, tree):
    tree(a=((), "utds", (40, 41)), b=(OTHER, "utds", (50, 51)))
    write_run(tmp_path / "c", "robot-fly/mine", (), "utds", (7.0, 8.0), reference=False)
    found = report.study([tmp_path])
    assert found.measure == "score" and "robot-fly: no reference return" in found.warnings[0]
    assert {setting.task for setting in found.settings} == {"walker-walk"}
    own = [outcome for outcome in found.outcomes.values() if outcome.setting.source == "own data"]
    listed = {outcome.setting.task: outcome.final.tolist() for outcome in own}
    assert listed == {"walker-walk": [40, 41], "robot-fly": pytest.approx([70, 80])}
    assert findings.gain(found, "utds").gain.value == pytest.approx(10)


def test_returns_are_never_averaged_over_domains(tmp_path, write_run):
    """One robot's returns go to 1000, the other's to 1: a mean of both would be the first's."""
    for domain, scale in (("robot", 100.0), ("cart", 0.1)):
        write_run(tmp_path / f"{domain}-own", f"{domain}-fly/mine", (), "utds", (scale, scale), reference=False)
        shared = (f"{domain}-dive/replay",)
        write_run(tmp_path / domain, f"{domain}-fly/mine", shared, "utds", (2 * scale, 2 * scale), reference=False)
    found = report.study([tmp_path])
    assert found.measure == "return" and findings.scopes(found) == ("cart", "robot")
    assert findings.gain(found, "utds").gain.value == pytest.approx(1.0)  # the first domain's, 10 × 0.1
    assert findings.gain(found, "utds", scope="robot").gain.value == pytest.approx(1000)
    assert "units of return" in text.title(found, findings.gain(found, "utds"))
    assert "cart" in text.to_markdown(found)


def test_an_older_run_gets_the_score_of_a_reference_that_came_later(tmp_path, write_run):
    """roll-fast: 149 for random actions, 658 for the expert that ships."""
    write_run(tmp_path / "run", "quadruped-roll-fast/medium", (), "utds", (65.8, 14.9), reference=False)
    found = report.study([tmp_path])
    (outcome,) = found.outcomes.values()
    assert found.measure == "score" and outcome.final.tolist() == pytest.approx([100, 0])
    assert found.own_references == ("quadruped-roll-fast",)


def test_recorded_data_stands_beside_the_algorithms(tmp_path, write_run):
    """walker-walk scores 0 at 32 and 100 at 971."""
    folder = write_run(tmp_path / "run", MAIN, OTHER, "utds", (70.0,))
    config = json.loads((folder / "config.json").read_text())
    config["sources"][0]["recorded"] = {"mean": 32.0, "best_tenth": 501.5, "episodes": 40}
    (folder / "config.json").write_text(json.dumps(config))
    found = report.study([tmp_path])
    (setting,) = found.settings
    assert found.recorded(setting) == pytest.approx((0, 50))
    assert "| walker-walk/medium | own data | recorded data, best tenth | – | 50.0 |" in text.to_markdown(found)
    assert next(csv.DictReader(table.to_csv(found).splitlines()))["recorded_best_tenth"] == "501.5"
    page = report.page.render(found)
    assert "recorded data, best tenth: 50.0" in page and 'class="axis mid"' in page


def test_costs(tmp_path, tree):
    tree(a=((), "utds", (40, 41)))
    (row,) = findings.costs(report.study([tmp_path]))
    # 100 s for 10,000 steps of each of two seeds: 5,000 s for a million of one.
    assert row == {
        "algorithm": "utds",
        "runs": 1,
        "hours": pytest.approx(5000 / 3600),
        "memory": 812.5,
        "parameters": 420_000,
    }


def test_csv_and_markdown(benchmark_tree):
    found = report.study([benchmark_tree])
    lines = list(csv.DictReader(table.to_csv(found).splitlines()))
    assert len(lines) == sum(len(outcome.seeds) for outcome in found.outcomes.values())
    row = next(
        r for r in lines if (r["task"], r["source"], r["algorithm"], r["seed"]) == ("walker-walk", "run", "cds", "1")
    )
    outcome = next(
        c for (s, label), c in found.outcomes.items() if label == "cds" and str(s) == "walker-walk/medium + run"
    )
    assert float(row["final_score"]) == pytest.approx(outcome.final[1])
    page = text.to_markdown(found)
    assert page.startswith("# With UTDS, sharing helps") and "| walker-walk/medium | run | CDS | 3 |" in page


def test_commands_say_what_was_run(tmp_path, write_run):
    from utds import algorithms
    from utds.cli.train import _overrides

    folder = write_run(tmp_path / "run", MAIN, OTHER, "utds", (50.0, 60.0), beta_ood=2.5, ood_floor=None)
    (outcome,) = report.study([tmp_path]).outcomes.values()
    (line,) = outcome.commands
    words = line.split()
    assert words[:5] == ["utds", "train", MAIN, "--share", OTHER[0]]
    assert words[-8:] == "--seeds 2 --first-seed 0 --steps 10000 --eval-every 1000".split()
    preset, given = words[words.index("--preset") + 1], words[words.index("--set") + 1 : words.index("--seeds")]
    made = algorithms.make("utds", preset=preset, **_overrides(tuple(given)))
    assert algorithms.to_config(made) == json.loads((folder / "config.json").read_text())["algorithm"]
    (folder / "cell.json").write_text('{"command": "utds train by-the-matrix"}')
    (outcome,) = report.study([tmp_path]).outcomes.values()
    assert outcome.commands == ["utds train by-the-matrix"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sampling": "episodes"}, "--sampling episodes"),
        ({"weights": "returns:temperature=0.5"}, "--weights returns:temperature=0.5"),
        ({"rewards": "rewards.py:reach@1f2e3d4c"}, "--rewards rewards.py:reach@1f2e3d4c"),
        ({"rewards": "function:reach@1f2e3d4c"}, None),
        ({"weights": "arrays@1f2e3d4c"}, None),
        ({"weights": "function:often@1f2e3d4c"}, None),
        ({"seeds": [0, 3]}, None),
    ],
)
def test_there_is_a_command_where_it_can_reproduce_the_run_and_else_none(tmp_path, write_run, changes, words):
    folder = write_run(tmp_path / "run", MAIN, OTHER, "utds", (50.0, 60.0))
    if "seeds" in changes:
        for name in ("evaluations.csv", "metrics.csv"):
            text = (folder / name).read_text()
            (folder / name).write_text(re.sub(r"(?m)^(\d+),1,", r"\1,3,", text))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    (outcome,) = report.study([tmp_path]).outcomes.values()
    found = outcome.commands
    if words is None:
        assert found == []
    else:
        assert words in found[0]


def test_a_gain_is_clear_when_it_is_sure_and_can_be_seen():
    assert findings.clear(Interval(2.0, 1.0, 3.0)) and findings.clear(Interval(-2.0, -3.0, -1.0))
    assert not findings.clear(Interval(2.0, -1.0, 5.0))
    assert not findings.clear(Interval(0.001, 0.0009, 0.0011))  # shown as 0.0

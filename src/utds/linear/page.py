"""Run every experiment and write one self-contained page, with each figure as a file of its own beside it."""

import html
import re
from pathlib import Path

import numpy as np

from utds import figures, files
from utds.errors import ConfigError
from utds.linear.statements import (
    Advance,
    Fact,
    Picture,
    Report,
    corollary1,
    lemma1,
    lemma2,
    ood,
    pseudocounts,
    quietly,
    scaled,
    theorem1,
    theorem2,
)

STATEMENTS = (theorem1, lemma1, theorem2, corollary1, pseudocounts, lemma2, ood)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sharing data in linear MDPs: the theory, measured</title>
<style>
:root {{ color-scheme: light dark; --ink: #1f2328; --paper: #ffffff; --quiet: #59636e; --line: #d1d9e0;
  --good: #007a5a; --bad: #b84e00 }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6edf3; --paper: #0d1117; --quiet: #9198a1; --line: #3d444d; --good: #3fc79a; --bad: #ff9a57 }}
}}
body {{ margin: 0 auto; padding: 1rem; max-width: 76rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word }}
h1 {{ font-size: 1.6rem; line-height: 1.2 }}
h2 {{ margin-top: 2.5rem; padding-top: 1rem; border-top: 1px solid var(--line); font-size: 1.25rem }}
p, table {{ max-width: 52rem }}
.claim {{ padding-left: 0.8rem; border-left: 3px solid var(--line) }}
.quiet, figcaption {{ color: var(--quiet); font-size: 0.9rem }}
.figures {{ display: flex; flex-wrap: wrap; gap: 1rem 2rem }}
figure {{ margin: 0; flex: 0 1 22rem; min-width: 0 }}
svg {{ width: 100%; height: auto }}
sub, sup {{ line-height: 0 }}
table {{ border-collapse: collapse; font-size: 0.9rem; margin-top: 1rem }}
th, td {{ padding: 0.3rem 0.6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }}
th {{ font-weight: 600 }}
.good {{ color: var(--good) }} .bad {{ color: var(--bad) }}
</style>
</head>
<body>
<h1>Sharing data in linear MDPs: the theory, measured</h1>
<p>Pessimistic value iteration with the penalty Γ<sub>lcb</sub> = β[φᵀΛ<sup>−1</sup>φ]<sup>½</sup> on finite linear MDPs
whose true values are known exactly. Each section states a claim of the UTDS paper, what it needs, and what this run
measured (seed {seed}, size {size:g}).</p>
{sections}
</body>
</html>
"""


def write(out: Path, seed: int = 0, size: float = 1.0, advance: Advance = quietly) -> tuple[Report, ...]:
    """Write `out`/index.html and one SVG per figure; `advance` gets shares that sum to the number of statements."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; --out names the folder to write the page and its figures to")
    if seed < 0:
        raise ConfigError(f"the seed is {seed}; it must be 0 or more")
    scaled(1, size)  # refuses a size that makes no sense before anything is computed
    reports = []
    for index, statement in enumerate(STATEMENTS):
        # Each statement has a stream of its own, so a change in one leaves the others' numbers as they were.
        result = statement.run(np.random.default_rng([seed, index]), size, advance)
        about = statement.TITLE, statement.CLAIM, statement.NEEDS, statement.CODE
        reports.append(Report(*about, statement.facts(result), tuple(draw(result) for draw in statement.PICTURES)))
    documents = {picture.name: figures.svg(picture.figure) for report in reports for picture in report.pictures}
    for name, document in documents.items():
        files.write_text(out / f"{name}.svg", document)
    sections = "\n".join(_section(report, documents) for report in reports)
    files.write_text(out / "index.html", _PAGE.format(seed=seed, size=size, sections=sections))
    return tuple(reports)


def _section(report: Report, documents: dict[str, str]) -> str:
    pictures = "\n".join(_picture(picture, documents[picture.name]) for picture in report.pictures)
    rows = "\n".join(_row(fact) for fact in report.facts)
    code = ", ".join(f"<code>utds.linear.{name}</code>" for name in report.code)
    return f"""<section>
<h2>{html.escape(report.title)}</h2>
<p class="claim">{report.claim}</p>
<p><b>What it needs.</b> {report.needs}</p>
<div class="figures">
{pictures}
</div>
<table>
<tr><th>measured</th><th>value</th><th>required</th></tr>
{rows}
</table>
<p class="quiet">Computed by {code}.</p>
</section>"""


def _picture(picture: Picture, document: str) -> str:
    drawing = figures.inline(document, picture.name, html.escape(picture.caption))
    return f"<figure>\n{drawing}\n<figcaption>{_text(picture.caption)}</figcaption>\n</figure>"


def _row(fact: Fact) -> str:
    mark = "" if fact.holds is None else '<span class="good">✓</span> ' if fact.holds else '<span class="bad">✗</span> '
    what, value, required = (_text(text) for text in (fact.what, fact.value, fact.required))
    return f"<tr><td>{what}</td><td>{value}</td><td>{mark}{required}</td></tr>"


def _text(text: str) -> str:
    """Plain text as HTML, with D_i and Γ_lcb as they are printed."""
    return re.sub(r"([A-ZΓ])_(\w+)", r"\1<sub>\2</sub>", html.escape(text))

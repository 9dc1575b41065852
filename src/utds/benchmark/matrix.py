"""A matrix: a small TOML file that stands for many runs.

domains = ["walker"]                       # all tasks of these; or `tasks = ["walker-walk", …]` alone
kinds = ["random", "medium"]               # of the main tasks' own data
columns = ["single", "each", "all"]        # own data alone; the other tasks one at a time; all of them at once;
                                           # "next": of the others, only the one after the main task, in a circle
algorithms = ["utds", "cql"]
preset = "paper"
steps = 1_000_000                          # steps_alone = …: of cells that share nothing, where they are others

[fields]                                   # of every algorithm
width = 256
[fields.utds]                              # of one of them
beta_ood = 1.0
[vary]                                     # a cell for every value, or combination of values
beta_ood_end = [0.0, 0.1]
[search]                                   # equal tuning of all algorithms before: see search.py
"""

import itertools
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from utds import algorithms, domains, files
from utds.algorithms import Algorithm
from utds.benchmark.cells import Cell
from utds.benchmark.search import Search, extremes
from utds.data import labelling
from utds.data.columns import KNOWN
from utds.data.ids import KINDS
from utds.errors import ConfigError, Error, hint

FOLDER = Path(__file__).parent / "matrices"  # those that ship with the package
COLUMNS = ("single", "next", "each", "all")
# Keys that cells take over as they are; and those that [search] may have too, of the settings to search on.
COMMON = ("source_kind", "rewards", "preset", "seeds", "first_seed", "episodes", "trust_dynamics")
SETTINGS = ("tasks", "kinds", "columns", "sources", "source_kind", "steps", "seeds", "first_seed")


@dataclass(frozen=True)
class Matrix:
    """See the module's description; every field but the name is a key of the file."""

    name: str
    tasks: tuple[str, ...]  # main tasks, such as walker-walk
    algorithms: tuple[str, ...]
    steps: int  # gradient steps per seed
    kinds: tuple[str, ...] = KINDS[:5]  # of the main tasks' own data; these five are the paper's
    columns: tuple[str, ...] = ("single", "each", "all")
    sources: tuple[str, ...] = ()  # tasks that may share their data; none given: every other task of the domain
    source_kind: str = "replay"  # kind of the shared data
    rewards: str = KNOWN  # of the shared data
    preset: str = "fast"
    fields: Mapping[str, Any] = field(default_factory=dict)  # of algorithms, beside the preset
    vary: Mapping[str, list[Any]] = field(default_factory=dict)  # field -> values
    steps_alone: int = 0  # gradient steps of cells that share nothing; 0: as many as of the others
    seeds: int = 1  # how many
    first_seed: int = 0
    eval_every: int = 0  # steps between evaluations; 0: a tenth of all
    checkpoint_every: int = 0  # steps between checkpoints; 0: as often as evaluations
    episodes: int = 10  # of an evaluation
    trust_dynamics: bool = False  # share without checking that the data moves as the main task's does
    search: Search | None = None  # of the algorithms' fields, on other settings

    def cells(self, searched: Mapping[str, Mapping[str, Any]] | None = None, only: Sequence[str] = ()) -> list[Cell]:
        """Every cell, ordered as a reader would: by task, kind, column, algorithm; `searched` are the fields found.

        Where nothing is shared, algorithms that become the same one are one cell, under that one's name. `only` names
        algorithms whose cells are wanted, and with them what they become when nothing is shared.
        """
        found = distinct(self.all_cells(searched))
        alone = {algorithms.entry(name).single_task for name in only}
        return [
            c for c in found if not only or c.algorithm_name in only or (not c.sources and c.algorithm_name in alone)
        ]

    def all_cells(self, searched: Mapping[str, Mapping[str, Any]] | None = None) -> Iterator[Cell]:
        """Every cell of every algorithm, also those whose runs are the same."""
        found = searched or {}
        for task, kind in itertools.product(self.tasks, self.kinds):
            for column, sources in self._shares(task):
                steps = self.steps if sources else self.steps_alone or self.steps
                eval_every = min(self.eval_every or max(1, steps // 10), steps)
                for algorithm, chosen in itertools.product(self.algorithms, self._varied()):
                    yield Cell(
                        matrix=self.name,
                        task=task,
                        kind=kind,
                        sources=sources,
                        column=column,
                        algorithm_name=algorithm,
                        fields=self._fields(algorithm) | dict(found.get(algorithm, {})) | chosen,
                        varied=tuple(chosen),
                        steps=steps,
                        eval_every=eval_every,
                        checkpoint_every=self.checkpoint_every or eval_every,
                        trials=self.search.trials if self.search and searched is not None else None,
                        **{name: getattr(self, name) for name in COMMON},
                    )

    def search_cells(self, only: Sequence[str] = ()) -> list[Cell]:
        """A cell for every setting, algorithm and trial of the search; with `only`, of what `cells` needs of them."""
        if self.search is None:
            return []
        needed = {*only, *(algorithms.entry(name).single_task for name in only)} or self.algorithms
        found = []
        for cell, trial in itertools.product(self.searched_on(self.search).all_cells(), range(self.search.trials)):
            if cell.algorithm_name in needed:
                drawn = self.search.draw(cell.algorithm_name, cell.preset, trial)
                found.append(replace(cell, fields={**cell.fields, **drawn}, trial=trial))
        return found

    def searched_on(self, search: Search) -> "Matrix":
        """The matrix of the settings to search on; only its last evaluation counts."""
        new = {"steps_alone": 0 if "steps" in search.settings else self.steps_alone, **search.settings}
        steps = new.get("steps", self.steps)
        return replace(self, vary={}, eval_every=steps, checkpoint_every=0, search=None, **new)

    def make(self, algorithm: str, changed: dict[str, Any]) -> Algorithm:
        """An algorithm of the matrix with some fields changed."""
        return algorithms.make(algorithm, preset=self.preset, **self._fields(algorithm) | changed)

    def _shares(self, task: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """(column, tasks that share) of every setting of a main task."""
        domain, _ = domains.task(task)
        tasks = domains.task_ids(domain)
        here = tasks.index(task)
        others = tuple(t for t in tasks if t != task and (not self.sources or t in self.sources))
        if "single" in self.columns:
            yield "single", ()
        if "next" in self.columns and others:
            yield "next", (min(others, key=(*tasks[here:], *tasks[:here]).index),)
        if "each" in self.columns:
            yield from (("each", (other,)) for other in others)
        if "all" in self.columns and len(others) > 1:  # all of one is `each` again
            yield "all", others

    def _fields(self, algorithm: str) -> dict[str, Any]:
        common = {name: value for name, value in self.fields.items() if not isinstance(value, Mapping)}
        return common | dict(self.fields.get(algorithm, {}))

    def _varied(self) -> list[dict[str, Any]]:
        """Every combination of the varied fields; one empty one where nothing varies."""
        return [dict(zip(self.vary, values, strict=True)) for values in itertools.product(*self.vary.values())]


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """The cells without those that compute what another one does: CDS and CDS-Zero on own data alone are CQL.

    They stay apart where the matrix also runs CQL with other fields: a report would take that for their counterpart.
    """
    groups: dict[Any, list[Cell]] = {}
    for cell in (given := list(cells)):
        alone = cell.alone
        key = (cell.name, None) if alone is None else (alone.name, json.dumps(algorithms.to_config(alone.algorithm)))
        groups.setdefault(key, []).append(cell)
    names, kept = {cell.name for cell in given}, []
    for (name, _), group in groups.items():
        merged = len(group) > 1 and (name not in names or name in {cell.name for cell in group})
        kept += [group[0].alone or group[0]] if merged else group
    return kept


def shipped() -> tuple[str, ...]:
    """The names of the matrices that ship with the package."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def load(name: str) -> Matrix:
    """A shipped matrix by name, or a file by path."""
    path = Path(name)
    if path.suffix != ".toml":
        if name not in shipped():
            raise ConfigError(f"{name!r} is neither a .toml file nor a matrix that ships{hint(name, shipped())}")
        path = FOLDER / f"{name}.toml"
    with files.explained(f"read {path}"):
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    try:
        return parse(tomllib.loads(text), path.stem)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no valid TOML: {error}") from None
    except Error as error:
        raise ConfigError(f"{path}: {error}") from None


def parse(given: Mapping[str, Any], name: str) -> Matrix:
    """A matrix from the contents of a file, every key and value checked."""
    types: dict[str, Any] = {f.name: f.type for f in fields(Matrix) if f.name != "name"}
    values = _read(given, {"domains": types["tasks"], **types}, ("algorithms", "steps"))
    values["tasks"] = _tasks(values.pop("domains", ()), values.get("tasks", ()))
    if "search" in values:
        keys = {"trials": int, "fields": types["fields"], "seed": int} | {key: types[key] for key in SETTINGS}
        found = _read(values["search"], keys, ("trials", "fields"), "[search]")
        settings = {key: found.pop(key) for key in SETTINGS if key in found}
        values["search"] = Search(settings=settings, **found)
    matrix = Matrix(name=name, **values)
    _check(matrix)
    return matrix


def _read(
    given: Mapping[str, Any], types: Mapping[str, Any], required: Sequence[str], table: str = ""
) -> dict[str, Any]:
    """The values of a table, each of its key's type, lists as tuples."""
    inside = table and f" in {table}"
    for key, value in given.items():
        if key not in types:
            raise ConfigError(f"there is no key {key!r}{inside}{hint(key, types)}")
        fits, expected = _fits(key, types[key], value)
        if not fits:
            raise ConfigError(f"{table} {key} = {value!r} must be {expected}".lstrip())
    for key in required:
        if key not in given:
            raise ConfigError(f"the key {key!r} is missing{inside}; see docs/guides/benchmark.md")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}


def _fits(key: str, kind: Any, value: Any) -> tuple[bool, str]:
    """Whether a value is of the key's type; and what it must be."""
    if kind is int:
        least = 0 if key in ("first_seed", "seed") else 1
        return type(value) is int and value >= least, f"a whole number of {least} or more"
    if kind is str:
        return isinstance(value, str), "a word"
    if kind is bool:
        return isinstance(value, bool), "true or false"
    if kind == tuple[str, ...]:
        words = isinstance(value, list) and all(isinstance(word, str) for word in value)
        return words and 0 < len(set(value)) == len(value), "a list of words, each once and at least one"
    is_table = isinstance(value, Mapping)
    if key == "vary":
        lists = is_table and all(isinstance(values, list) and values for values in value.values())
        return lists, "a table of lists of values"
    return is_table, "a table of fields" if key == "fields" else "a table"


def _tasks(wanted: tuple[str, ...], tasks: tuple[str, ...]) -> tuple[str, ...]:
    """The main tasks: all of the domains, or those named."""
    if bool(wanted) == bool(tasks):
        raise ConfigError("give the main tasks as either domains = […] or tasks = […]")
    for name in wanted:
        _member("domain", name, domains.names())
    return tasks or tuple(task for name in wanted for task in domains.task_ids(domains.get(name)))


def _check(matrix: Matrix) -> None:
    """Names that don't exist, and fields that an algorithm doesn't have."""
    known = [task for name in domains.names() for task in domains.task_ids(domains.get(name))]
    for key, allowed in (
        ("tasks", known),
        ("sources", known),
        ("kinds", KINDS),
        ("columns", COLUMNS),
        ("algorithms", tuple(algorithms.entries())),
    ):
        for name in getattr(matrix, key):
            _member(key.removesuffix("s"), name, allowed)
    if {"next", "each"} <= set(matrix.columns):
        raise ConfigError('columns: "next" is one of "each"; give only one of the two')
    robots = {domains.task(task)[0].name for task in matrix.tasks}
    for name in matrix.sources:
        if domains.task(name)[0].name not in robots:
            raise ConfigError(f"sources: {name} is of another robot than the main tasks and shares with none of them")
    if not any(list(matrix._shares(task)) for task in matrix.tasks):
        raise ConfigError("the matrix has no cell: no other task shares with its main tasks; see sources and columns")
    _member("source_kind", matrix.source_kind, KINDS)
    labelling.make(matrix.rewards)
    for name, value in matrix.fields.items():
        if isinstance(value, Mapping):
            _member("algorithm", name, matrix.algorithms)
            _check_fields(f"[fields.{name}]", value)
        elif name in matrix.algorithms:
            raise ConfigError(
                f"[fields] {name} = {value!r} is an algorithm; give its fields in a table [fields.{name}]"
            )
    _check_fields("[fields]", matrix.fields)
    _check_fields("[vary]", matrix.vary)
    for algorithm in matrix.algorithms:
        for chosen in matrix._varied():
            matrix.make(algorithm, chosen)
    if matrix.search:
        _check(matrix.searched_on(matrix.search))
        _check_search(matrix, matrix.search)


def _check_fields(table: str, names: Iterable[str]) -> None:
    """Refuse among fields what says which algorithm it is."""
    for name in names:
        if name in ("name", "preset"):
            key = {"name": "algorithms"}.get(name, name)
            raise ConfigError(f"{table} {name} is no field of an algorithm; choose by the key {key!r} of the matrix")


def _check_search(matrix: Matrix, search: Search) -> None:
    """Refuse fields that don't exist, distributions that make no sense, and settings that the tables contain."""
    if not search.fields:
        raise ConfigError("[search.fields] must name one field or more, each with its values")
    for name in search.algorithms:
        if name not in matrix.algorithms:
            raise ConfigError(f"[search.fields.{name}]: there is no algorithm {name!r}{hint(name, matrix.algorithms)}")
    for algorithm in matrix.algorithms:
        _check_fields("[search.fields]", search.distributions(algorithm))
        for name, distribution in search.distributions(algorithm).items():
            if name in matrix.vary:
                raise ConfigError(f"the field {name!r} is both varied and searched for; take it out of one of them")
            for value in extremes(name, distribution):
                matrix.make(algorithm, {name: value})
        for trial in range(min(search.trials, 100)):
            matrix.make(algorithm, search.draw(algorithm, matrix.preset, trial))
    reported = {cell.datasets for cell in matrix.cells()}
    for cell in matrix.searched_on(search).cells():
        if cell.datasets in reported:
            raise ConfigError(
                f"the setting {' + '.join(cell.datasets)} is both searched on and reported on: results on settings "
                "that chose the fields flatter them; give [search] other tasks, kinds or columns"
            )


def _member(what: str, name: str, known: Any) -> None:
    if name not in known:
        raise ConfigError(f"there is no {what} {name!r}{hint(name, known)}")

"""From what people have to a checked dataset: arrays with episodes marked in several ways, or episode by episode.

from_arrays   [N + E, O] observations, or [N, O] with the next ones; episodes by length, by index or by their ends
from_steps    [N, O] observations, one per action: what the last action of an episode reached wasn't logged
Builder       episodes one by one, as recorders and importers have them
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from utds.data import units
from utds.data.columns import (
    BLOCK,
    COLUMNS,
    ZERO,
    Episode,
    Metadata,
    cast,
    check_chained,
    check_continues,
    check_count,
    check_finite,
    episode_lengths,
)
from utds.data.dataset import Dataset
from utds.errors import DataError

ActionBounds = str | tuple[object, object] | None  # text as the command line takes it: auto, -90:90


class Builder:
    """Gathers episodes and makes one dataset of them.

    Every column is one array that grows in place, so a dataset isn't held twice while it is built.
    """

    def __init__(self) -> None:
        self._columns: dict[str, _Growing] = {}
        self._lengths: list[int] = []
        self._ended: list[bool] = []

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, episode: Episode, source: object = None) -> None:
        """One more episode; `source` is how messages speak of it, such as its file."""
        name = f"episode {len(self)}" if source is None else str(source)
        if len(episode.rewards) == 0:
            raise DataError(f"{name} has no step; record at least one")
        given = {field: getattr(episode, field) for field in COLUMNS if field in Episode._fields}
        given = {field: np.asarray(values) for field, values in given.items() if values is not None}
        if not self._columns:
            self._columns = {field: _Growing(field, values) for field, values in given.items()}
        for field in dict.fromkeys([*self._columns, *given]):
            if field not in given or field not in self._columns:
                lacks = "no " if field not in given else ""
                raise DataError(f"{name} has {lacks}{field}, unlike the first; record it for all or for none")
            rows, needed = len(given[field]), len(episode.rewards) + COLUMNS[field].per_episode
            if rows != needed:  # in the whole it could be made up for by another episode
                raise DataError(
                    f"{name} has {rows} rows of {field} and {len(episode.rewards)} steps; {needed} are needed"
                )
            self._columns[field].append(name, given[field])
        self._lengths.append(len(episode.rewards))
        self._ended.append(bool(episode.terminated))

    def dataset(self, **metadata: Any) -> Dataset:
        """Everything added so far, actions in [-1, 1]; `metadata` are the fields of `Metadata`."""
        given, lengths = self.columns()
        return Dataset.checked(given, lengths, Metadata(**metadata))

    def columns(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The columns of everything added so far, and the episodes' lengths [E]. Nothing can be added afterwards."""
        if not self._lengths:
            raise DataError("nothing was recorded: a dataset needs at least one episode")
        lengths, ended = np.array(self._lengths), np.array(self._ended)
        given = {name: column.take() for name, column in self._columns.items()}
        given["terminations"], given["truncations"] = _flags(lengths, ended)
        return given, lengths


class _Growing:
    """A column that grows. The system extends a large block of memory in place: nothing is copied."""

    def __init__(self, name: str, first: np.ndarray) -> None:
        self.name, self.size, self.shape = name, 0, first.shape[1:]
        self.array = np.empty((0, *self.shape), COLUMNS[name].dtype)

    def append(self, source: str, values: np.ndarray) -> None:
        if values.dtype.kind not in "biuf":
            raise DataError(f"{source}: {self.name} has dtype {values.dtype}; give real numbers")
        if values.shape[1:] != self.shape:
            raise DataError(
                f"{source}: {self.name} has rows of shape {list(values.shape[1:])}, "
                f"but the first episode has {list(self.shape)}; all episodes must come from one robot"
            )
        end = self.size + len(values)
        if end > len(self.array):
            self.array.resize((max(end, 3 * len(self.array) // 2), *self.shape), refcheck=False)
        with np.errstate(over="ignore"):  # what leaves float32's range becomes infinite, and is reported as such
            self.array[self.size : end] = values
        self.size = end

    def take(self) -> np.ndarray:
        self.array.resize((self.size, *self.shape), refcheck=False)
        return self.array


@dataclass(frozen=True)
class Marks:
    """What tells episodes apart: lengths, else an index, else their ends; all one episode where nothing is given."""

    terminations: object = None  # [N]
    truncations: object = None  # [N]
    lengths: object = None  # [E]
    episode_index: object = None  # [N]

    @classmethod
    def taken(cls, given: dict[str, Any]) -> "Marks":
        """Those among named arguments, which are taken out."""
        return cls(**{name.name: given.pop(name.name) for name in fields(cls) if name.name in given})

    def episodes(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lengths [E], terminations [N] and truncations [N] of `count` steps."""
        marks = {}
        for name in ("terminations", "truncations"):
            values = getattr(self, name)
            marks[name] = np.zeros(count, np.bool_) if values is None else cast(name, values, np.bool_, None)
            if len(marks[name]) != count:
                raise DataError(f"{name} has {len(marks[name])} rows, but rewards has {count}; both need one a step")
        if self.lengths is not None:
            steps = episode_lengths(self.lengths)
        elif self.episode_index is not None:
            steps = lengths_of(self.episode_index)
        else:
            steps = _between_marks(marks["terminations"] | marks["truncations"])
        check_count("rewards", count, steps, 0)
        check_continues(marks["terminations"] | marks["truncations"], steps)
        last = np.cumsum(steps) - 1
        cut = marks["truncations"].copy()
        cut[last] |= ~marks["terminations"][last]  # where no end is marked, the recording was cut
        return steps, marks["terminations"], cut


def from_arrays(
    observations: object,
    actions: object,
    rewards: object,
    *,
    next_observations: object = None,
    physics: object = None,
    task_rewards: object = None,
    action_bounds: ActionBounds = None,
    **given: Any,
) -> Dataset:
    """See `Dataset.from_arrays`; `given` are marks of the episodes and the fields of `Metadata`."""
    columns = arranged(observations, actions, rewards, Marks.taken(given), next_observations)
    steps = columns.pop("lengths")
    columns["actions"], described = _scaled(actions, action_bounds, steps)
    if "description" in described and given.get("description"):
        described["description"] = f"{given.pop('description')}; {described['description']}"
    for name, values in (("physics", physics), ("task_rewards", task_rewards)):
        if values is not None:
            columns[name] = values
    return Dataset.checked(columns, steps, Metadata(**described | given))


def arranged(
    observations: object, actions: object, rewards: object, marks: Marks, next_observations: object = None
) -> dict[str, Any]:
    """Columns as a dataset has them, and lengths, from what `Dataset.from_arrays` takes."""
    earned = cast("rewards", rewards, np.float32, None)
    steps, ended, cut = marks.episodes(len(earned))
    if next_observations is not None:
        observations = _interleaved(observations, next_observations, steps)
    return {
        "observations": observations,
        "actions": actions,
        "rewards": earned,
        "terminations": ended,
        "truncations": cut,
        "lengths": steps,
    }


def from_steps(
    observations: object,
    actions: object,
    rewards: object = None,
    *,
    action_bounds: ActionBounds = None,
    **given: Any,
) -> Dataset:
    """See `Dataset.from_steps`; `given` are marks of the episodes and the fields of `Metadata`."""
    columns = steps_arranged(observations, actions, rewards, Marks.taken(given))
    if columns["rewards"] is None:
        columns["rewards"] = np.zeros(len(columns["actions"]), np.float32)
        given = {"labelling": ZERO} | given
    return from_arrays(**columns, action_bounds=action_bounds, **given)


def steps_arranged(observations: Any, actions: object, rewards: object, marks: Marks) -> dict[str, Any]:
    """observations, actions, rewards (or None), terminations and lengths of a log with as many states as actions."""
    states = _sliceable(observations)
    taken = cast("actions", actions, np.float32, 0)
    if len(states) != len(taken):
        raise DataError(f"observations has {len(states)} rows and actions {len(taken)}; give one of each per step")
    steps, ended, _ = marks.episodes(len(taken))
    last = np.cumsum(steps) - 1
    done = ended[last]
    if ((steps < 2) & ~done).any():
        raise DataError(f"episode {int(np.argmax((steps < 2) & ~done))} has one step, whose outcome wasn't logged")
    kept = np.ones(len(taken), bool)
    kept[last] = done
    earned = None
    if rewards is not None:
        earned = cast("rewards", rewards, np.float32, None)
        check_count("rewards", len(earned), steps, 0)
        earned = earned[kept]
    return {
        "observations": _ends_repeated(states, steps, done),
        "actions": taken[kept],
        "rewards": earned,
        "terminations": ended[kept],
        "lengths": steps - ~done,
    }


def lengths_of(episode_index: object) -> np.ndarray:
    """Lengths [E] of the episodes that an index [N] tells apart; each must be in one piece."""
    index = np.asarray(episode_index)
    if index.ndim == 2 and index.shape[1] == 1:
        index = index[:, 0]
    if index.ndim != 1 or len(index) == 0:
        raise DataError(
            f"the episode index has shape {list(index.shape)}; give the number of its episode for each step"
        )
    first = np.flatnonzero(np.concatenate([[True], index[1:] != index[:-1]]))
    values, counts = np.unique(index[first], return_counts=True)
    if (counts > 1).any():
        again = values[int(np.argmax(counts > 1))]
        raise DataError(f"episode {again} isn't in one piece: its steps are shuffled; sort them by episode and time")
    return np.diff(np.append(first, len(index)))


def _flags(lengths: np.ndarray, ended: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Terminations and truncations [N] of episodes of these lengths [E], of which some truly `ended` [E]."""
    last = np.cumsum(lengths) - 1
    terminations, truncations = np.zeros((2, int(lengths.sum())), np.bool_)
    terminations[last] = ended
    truncations[last] = ~ended
    return terminations, truncations


def _scaled(actions: object, bounds: ActionBounds, lengths: np.ndarray) -> tuple[object, dict[str, Any]]:
    """Actions in [-1, 1], and what the metadata say about their unit."""
    if bounds is None:
        return actions, {}
    if isinstance(bounds, str):
        bounds = units.parse(bounds)
    raw = np.asarray(actions)
    raw = cast("actions", raw, raw.dtype.type, 0)
    check_count("actions", len(raw), lengths, 0)
    check_finite("actions", raw, lengths, 0)
    low, high = units.found(raw) if isinstance(bounds, str) else units.bounds(bounds, raw.shape[1])
    described: dict[str, Any] = {"action_low": tuple(low), "action_high": tuple(high)}
    if isinstance(bounds, str):
        described["description"] = f"action bounds found from the data, with a margin of {units.MARGIN:.0%}"
    return units.to_unit(raw, low, high, lengths), described


def _between_marks(ends: np.ndarray) -> np.ndarray:
    """Lengths of the episodes that end where marked, and at the last step."""
    if len(ends) == 0:
        raise DataError("rewards is empty; a dataset needs at least one step")
    last = np.flatnonzero(ends)
    if not ends[-1]:
        last = np.append(last, len(ends) - 1)
    return np.diff(last, prepend=-1)


def _sliceable(given: Any) -> Any:
    """Rows to be read by slices: an array, or what stands for one in a file."""
    return given if hasattr(given, "shape") else np.asarray(given)


def tiles(name: str, given: Any, width: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """[N, width] in parts that stay in the processor's cache: which rows, which columns, and these as float32.

    A file of columns (`formats.table.Stream`) gives a few columns at a time, the rows of each in order.
    """
    if hasattr(given, "tiles"):
        yield from given.tiles()
        return
    for begin in range(0, len(given), BLOCK):
        rows = slice(begin, min(begin + BLOCK, len(given)))
        yield rows, slice(0, width), cast(name, given[rows], np.float32, width)


def _interleaved(observations: Any, next_observations: Any, lengths: np.ndarray) -> np.ndarray:
    """[N + E, O] from what each step leaves and reaches, both [N, O]; refuses steps that don't chain.

    Both are read in parts and one after the other, arrays in a file too: only the result is ever held as a whole.
    """
    before, after = _sliceable(observations), _sliceable(next_observations)
    check_count("observations (given with next_observations)", len(before), lengths, 0)
    check_count("next_observations", len(after), lengths, 0)
    width = _width("observations", before)
    if _width("next_observations", after) != width:
        raise DataError(f"next_observations has shape {list(after.shape)}; [n, {width}] is needed")
    states = np.empty((len(before) + len(lengths), width), np.float32)
    ends = np.cumsum(lengths)
    for rows, columns, left in tiles("observations", before, width):
        for episode, part, place in _pieces(rows, ends):
            states[place.start + episode : place.stop + episode, columns] = left[part]
    for rows, columns, reached in tiles("next_observations", after, width):
        for episode, part, place in _pieces(rows, ends):
            if place.stop == ends[episode]:
                states[place.stop + episode, columns] = reached[part.stop - 1]
            following = states[place.start + episode + 1 : place.stop + episode + 1, columns]
            if (reached[part] != following).any():
                check_chained(reached[part], following, lengths, place.start)
    return states


def _ends_repeated(states: Any, lengths: np.ndarray, done: np.ndarray) -> np.ndarray:
    """[N, O] with the last state of the episodes marked in `done` [E] twice."""
    width = _width("observations", states)
    if isinstance(states, np.ndarray) and not done.any():
        return cast("observations", states, np.float32, width)
    found = np.empty((len(states) + int(done.sum()), width), np.float32)
    ends, added = np.cumsum(lengths), np.cumsum(done) - done
    for rows, columns, given in tiles("observations", states, width):
        for episode, part, place in _pieces(rows, ends):
            more = added[episode]
            found[place.start + more : place.stop + more, columns] = given[part]
            if done[episode] and place.stop == ends[episode]:
                found[place.stop + more, columns] = given[part.stop - 1]
    return found


def _width(name: str, given: Any) -> int:
    """O of [N, O]."""
    return int(given.shape[1]) if hasattr(given, "tiles") else cast(name, given[:1], np.float32, 0).shape[1]


def _pieces(rows: slice, ends: np.ndarray) -> Iterator[tuple[int, slice, slice]]:
    """Each episode that has steps among these: its index, where in the part they lie, and which steps they are."""
    begin, episode = rows.start, int(np.searchsorted(ends, rows.start, side="right"))
    while begin < rows.stop:
        end = min(int(ends[episode]), rows.stop)
        yield episode, slice(begin - rows.start, end - rows.start), slice(begin, end)
        begin, episode = end, episode + 1

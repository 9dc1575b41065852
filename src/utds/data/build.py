"""From what people have to the columns of a dataset: arrays with episodes marked in several ways, or episodes.

from_arrays   [N + E, O] observations, or [N, O] with the next ones; episodes by length, by index or by their ends
from_steps    [N, O] observations, one per action: what the last action of an episode reached wasn't logged
Builder       episodes one by one, as recorders and importers have them
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from utds.data.columns import (
    BLOCK,
    BOUNDS_FOUND,
    COLUMNS,
    OPTIONAL,
    ZERO,
    Episode,
    Metadata,
    bounds_found,
    bounds_of,
    cast,
    check_chained,
    check_count,
    check_endings,
    check_finite,
    episode_lengths,
    first_true,
    parse_bounds,
    to_unit,
)
from utds.errors import DataError

ActionBounds = str | tuple[object, object] | None  # text as the command line takes it: auto, -90:90
Parts = tuple[dict[str, Any], np.ndarray, Metadata]  # columns, lengths [E] and metadata, for `Dataset.checked`


class Builder:
    """Gathers episodes for one dataset.

    Every column grows in place, so a dataset isn't held twice while it is built.
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
                steps = len(episode.rewards)
                raise DataError(f"{name} has {rows} rows of {field} and {steps} steps; {needed} are needed")
            self._columns[field].append(name, given[field])
        self._lengths.append(len(episode.rewards))
        self._ended.append(bool(episode.terminated))

    def columns(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The columns of everything added so far, and the episodes' lengths [E]. Nothing can be added afterwards."""
        if not self._lengths:
            raise DataError("nothing was recorded: a dataset needs at least one episode")
        lengths, ended = np.array(self._lengths), np.array(self._ended)
        given = {name: column.array() for name, column in self._columns.items()}
        last = np.cumsum(lengths) - 1
        given["terminations"], given["truncations"] = np.zeros((2, int(lengths.sum())), np.bool_)
        given["terminations"][last], given["truncations"][last] = ended, ~ended
        return given, lengths


class _Growing:
    """A column that grows. The system extends a large block of memory in place: nothing is copied."""

    def __init__(self, name: str, first: np.ndarray) -> None:
        self.name, self.rows, self.shape, self.bytes = name, 0, first.shape[1:], bytearray()

    def append(self, source: str, values: np.ndarray) -> None:
        if values.dtype.kind not in "biuf":
            raise DataError(f"{source}: {self.name} has dtype {values.dtype}; give real numbers")
        if values.shape[1:] != self.shape:
            raise DataError(
                f"{source}: {self.name} has rows of shape {list(values.shape[1:])}, "
                f"but the first episode has {list(self.shape)}; all episodes must come from one robot"
            )
        with np.errstate(over="ignore"):  # what leaves float32's range becomes infinite, and is reported as such
            self.bytes += values.astype(COLUMNS[self.name].dtype).tobytes()
        self.rows += len(values)

    def array(self) -> np.ndarray:
        return np.frombuffer(self.bytes, COLUMNS[self.name].dtype).reshape(self.rows, *self.shape)


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

        def flags(name: str, values: object) -> np.ndarray:
            found = np.zeros(count, np.bool_) if values is None else cast(name, values, np.bool_, None)
            if len(found) != count:
                raise DataError(f"{name} has {len(found)} rows, but rewards has {count}; both need one per step")
            return found

        ended, cut = flags("terminations", self.terminations), flags("truncations", self.truncations).copy()
        if self.lengths is not None:
            steps = episode_lengths(self.lengths)
        elif self.episode_index is not None:
            steps = lengths_of(self.episode_index)
        elif count:
            steps = np.diff(np.flatnonzero(np.append((ended | cut)[:-1], True)), prepend=-1)
        else:
            raise DataError("rewards is empty; a dataset needs at least one step")
        check_count("rewards", count, steps, 0)
        last = np.cumsum(steps) - 1
        cut[last] |= ~ended[last]  # where no end is marked, the recording was cut
        check_endings(ended, cut, steps)
        return steps, ended, cut


def from_arrays(
    observations: object,
    actions: object,
    rewards: object,
    *,
    next_observations: object = None,
    action_bounds: ActionBounds = None,
    **given: Any,
) -> Parts:
    """See `Dataset.from_arrays`; `given` are marks of the episodes, optional columns and the fields of `Metadata`."""
    columns = arranged(observations, actions, rewards, Marks.taken(given), next_observations)
    steps = columns.pop("lengths")
    columns["actions"], described = _scaled(actions, action_bounds, steps)
    if "description" in described and given.get("description"):
        described["description"] = f"{given.pop('description')}; {described['description']}"
    columns |= {name: given.pop(name) for name in OPTIONAL if name in given}
    return columns, steps, Metadata(**described | given)


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
) -> Parts:
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
    if (episode := first_true((steps < 2) & ~done)) is not None:
        raise DataError(f"episode {episode} has one step, whose outcome wasn't logged")
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
    if (again := first_true(counts > 1)) is not None:
        raise DataError(
            f"episode {values[again]} isn't in one piece: its steps are shuffled; sort them by episode and time"
        )
    return np.diff(np.append(first, len(index)))


def _scaled(actions: object, bounds: ActionBounds, lengths: np.ndarray) -> tuple[object, dict[str, Any]]:
    """Actions in [-1, 1], and what the metadata say about their unit."""
    if bounds is None:
        return actions, {}
    if isinstance(bounds, str):
        bounds = parse_bounds(bounds)
    raw = cast("actions", actions, None, 0)
    check_count("actions", len(raw), lengths, 0)
    check_finite("actions", raw, lengths, 0)
    auto = isinstance(bounds, str)
    low, high = bounds_found(raw) if auto else bounds_of(bounds, raw.shape[1])
    described: dict[str, Any] = {"action_low": tuple(low), "action_high": tuple(high)}
    if auto:
        described["description"] = BOUNDS_FOUND
    return to_unit(raw, low, high, lengths), described


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


def _pieces(
    name: str, given: Any, width: int, lengths: np.ndarray
) -> Iterator[tuple[int, slice, bool, slice, np.ndarray]]:
    """The tiles of [N, width], cut where an episode ends.

    Each as its episode, which steps these are, whether the episode's last is among them, which columns, and the values.
    """
    ends = np.cumsum(lengths)
    for rows, columns, values in tiles(name, given, width):
        begin, episode = rows.start, int(np.searchsorted(ends, rows.start, side="right"))
        while begin < rows.stop:
            end = min(int(ends[episode]), rows.stop)
            part = values[begin - rows.start : end - rows.start]
            yield episode, slice(begin, end), end == ends[episode], columns, part
            begin, episode = end, episode + 1


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
    for episode, steps, _, columns, left in _pieces("observations", before, width, lengths):
        states[steps.start + episode : steps.stop + episode, columns] = left
    for episode, steps, last, columns, reached in _pieces("next_observations", after, width, lengths):
        if last:
            states[steps.stop + episode, columns] = reached[-1]
        following = states[steps.start + episode + 1 : steps.stop + episode + 1, columns]
        if (reached != following).any():
            check_chained(reached, following, lengths, steps.start)
    return states


def _ends_repeated(states: Any, lengths: np.ndarray, done: np.ndarray) -> np.ndarray:
    """[N, O] with the last state of the episodes marked in `done` [E] twice."""
    width = _width("observations", states)
    if isinstance(states, np.ndarray) and not done.any():
        return cast("observations", states, np.float32, width)
    found = np.empty((len(states) + int(done.sum()), width), np.float32)
    added = np.cumsum(done) - done
    for episode, steps, last, columns, given in _pieces("observations", states, width, lengths):
        begin, end = steps.start + added[episode], steps.stop + added[episode]
        found[begin:end, columns] = given
        if done[episode] and last:
            found[end, columns] = given[-1]
    return found


def _width(name: str, given: Any) -> int:
    """O of [N, O]."""
    return int(given.shape[1]) if hasattr(given, "tiles") else cast(name, given[:1], np.float32, 0).shape[1]

"""Parquet files through pyarrow, a few columns and a few rows at a time.

A column of numbers, or of lists of equally many numbers, gives [N, d]. At most `GROUP` columns are decoded together,
since pyarrow keeps several megabytes of each beside what it hands out.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from utds.data.columns import BLOCK
from utds.data.formats.recording import readable
from utds.errors import DataError, MissingExtra

GROUP = 2  # columns read together: pyarrow holds some megabytes of each
_ROWS = 1 << 15  # decoded together
_BUFFER = 1 << 20  # bytes of a column that are read from the disk together


class Stream:
    """Columns of files of one robot, one file after the other, as [N, d] float32; read when its tiles are asked for."""

    def __init__(self, paths: Sequence[Path], names: Sequence[str]) -> None:
        self.paths, self.names = paths, names
        self.widths = _widths(paths[0], names)
        self.shape = (sum(map(rows, paths)), sum(self.widths))

    def __len__(self) -> int:
        return self.shape[0]

    def tiles(self) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Which rows, which columns, and these as float32: of a few columns all rows in order, then of the next few."""
        ends = np.cumsum(self.widths).tolist()
        for first in range(0, len(self.names), GROUP):
            chosen = slice(first, min(first + GROUP, len(self.names)))
            columns, begin = slice(ends[first] - self.widths[first], ends[chosen.stop - 1]), 0
            for path in self.paths:
                for values in self._of_file(path, chosen):
                    yield slice(begin, begin + len(values)), columns, values
                    begin += len(values)

    def _of_file(self, path: Path, chosen: slice) -> Iterator[np.ndarray]:
        names, widths, seen = self.names[chosen], self.widths[chosen], 0
        with _opened(path) as file:
            for batch in file.iter_batches(_ROWS, columns=names, use_threads=False):  # each thread holds buffers
                found = [vectors(path, name, batch.column(name), seen) for name in names]
                for name, values, width in zip(names, found, widths, strict=True):
                    if values.shape[1] != width:
                        raise DataError(f"{path}: {name} has {values.shape[1]} numbers per row, but {width} before")
                for begin in range(0, len(found[0]), BLOCK):
                    part = [values[begin : begin + BLOCK] for values in found]
                    with np.errstate(over="ignore"):  # what leaves float32's range becomes infinite, and is reported
                        values = np.concatenate(part, axis=1, dtype=np.float32, casting="same_kind")
                    check_numbers(path, names, widths, values, seen + begin)
                    yield values
                seen += batch.num_rows

    def array(self) -> np.ndarray:
        """All of it in memory."""
        found = np.empty(self.shape, np.float32)
        for at, columns, values in self.tiles():
            found[at, columns] = values
        return found


def check_numbers(path: Path, names: Sequence[str], widths: Sequence[int], values: np.ndarray, first: int = 0) -> None:
    """No NaN and nothing infinite in `values` [n, d], columns of these names and widths side by side."""
    finite = np.isfinite(values)
    if finite.all():
        return
    row, feature = np.argwhere(~finite)[0]
    name = names[int(np.searchsorted(np.cumsum(widths), feature, side="right"))]
    raise DataError(f"{path}: row {first + row + 1} has no number in column {name!r}; fill it or leave the row out")


def names(path: Path) -> list[str]:
    """The names of a file's columns."""
    with _opened(path) as file:
        return list(file.schema_arrow.names)


def rows(path: Path) -> int:
    """How many a file has."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def column(path: Path, name: str) -> np.ndarray:
    """[N, 1] of a column of numbers, in its own dtype; whole numbers in the smallest that holds them."""
    values = vectors(path, name, table(path, [name]).column(name))
    if values.shape[1] != 1:
        raise DataError(f"{path}: column {name!r} holds lists of {values.shape[1]} numbers; one per row is needed")
    if values.dtype.kind in "iu" and values.size:
        smallest = np.result_type(*map(np.min_scalar_type, (values.min(), values.max())))
        return values.astype(smallest) if smallest.kind in "iu" else values  # no integer may hold both ends
    return values


def table(path: Path, columns: Sequence[str] | None = None) -> Any:
    """pyarrow's table of a file."""
    with _opened(path) as file:
        return file.read(columns=columns, use_threads=False)


def library() -> Any:
    """pyarrow with its module for parquet files."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("parquet files need pyarrow: pip install 'utds[parquet]'") from None
    return pyarrow


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pyarrow = library()
    with readable(path, "parquet", pyarrow.ArrowException), open(path, "rb"):
        # By its name: pyarrow's threads can't read from a file of Python's while the interpreter waits for them.
        with pyarrow.parquet.ParquetFile(str(path), buffer_size=_BUFFER) as file:
            yield file


def _widths(path: Path, names: Sequence[str]) -> list[int]:
    """d of each column: one number, or as many as the list of the first row has."""
    import pyarrow

    with _opened(path) as file:
        if not file.metadata.num_rows:
            raise DataError(f"{path} holds no row")
        nested = [name for name in names if pyarrow.types.is_nested(file.schema_arrow.field(name).type)]
        first = next(file.iter_batches(1, columns=nested)) if nested else {}
    return [vectors(path, name, first[name]).shape[1] if name in nested else 1 for name in names]


def vectors(path: Path, name: str, given: Any, first: int = 0) -> np.ndarray:
    """A column of pyarrow's, from row `first` on, as [n, d]."""
    import pyarrow

    kind = given.type
    array = given.combine_chunks() if isinstance(given, pyarrow.ChunkedArray) else given
    if array.null_count:
        raise DataError(f"{path}: column {name!r} has {array.null_count} rows without a value; fill or drop them")
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        count = len(array)
        flat = np.asarray(array.flatten())
        if flat.dtype.kind not in "biuf" or count == 0 or len(flat) % count:
            raise DataError(f"{path}: column {name!r} holds lists of other than equally many numbers")
        if not pyarrow.types.is_fixed_size_list(kind):
            lengths = np.diff(np.asarray(array.offsets))
            if (lengths != lengths[0]).any():
                row = int(np.argmax(lengths != lengths[0]))
                raise DataError(
                    f"{path}: column {name!r} has {lengths[row]} numbers in row {first + row}, {lengths[0]} before"
                )
        return flat.reshape(count, -1)
    values = np.asarray(array)
    if values.dtype.kind not in "biuf":
        raise DataError(f"{path}: column {name!r} holds {kind}; only numbers can be used")
    return values[:, None]

"""Writing files so that a reader never sees half of one, and reading them back with errors in one line."""

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from utds.errors import DataError


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary sibling of `path` to write to; it takes `path`'s place when the block ends well.

    The sibling may become a file or a folder. On any failure it is removed and `path` stays as it was.
    A kill leaves at most a hidden `.name.*.part` beside `path`, which no reader looks at.
    """
    path = Path(path)
    with explained(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
        try:
            part = room / path.name
            yield part
            _sync(part)
            if part.is_dir() and path.is_dir():
                _replace_folder(part, path)
            else:
                os.replace(part, path)
            _sync_folder(path.parent)
        finally:
            shutil.rmtree(room, ignore_errors=True)


def _replace_folder(part: Path, path: Path) -> None:
    """Rename can't replace a folder that holds something: the old one steps aside first, as `replaced`.

    That name lasts no longer than the old folder is all there is: a kill while it is being deleted must not leave half
    of it to be taken for the whole.
    """
    aside = part.with_name("replaced")
    os.rename(path, aside)
    try:
        os.replace(part, path)
    except OSError:
        os.rename(aside, path)
        raise
    os.rename(aside, part.with_name("obsolete"))


@contextlib.contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn the operating system's refusals inside the block into one clear line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(
                f"could not {doing}: the disk is full; free some space and run the command again"
            ) from error
        if isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError | IsADirectoryError):
            raise DataError(f"could not {doing}: {error.strerror or error}") from error
        raise


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as indented JSON, atomically. NaN and infinity are refused: JSON has none."""
    with atomic(path) as part:
        part.write_text(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file; a missing or broken one is a `DataError`."""
    with explained(f"read {path}"):
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path} is no valid JSON (line {error.lineno}: {error.msg}); it was cut short or altered"
        ) from None


def _sync(path: Path) -> None:
    """Flush a file, or every file below a folder, to the disk; readable for all whom the umask lets read."""
    mask = os.umask(0)
    os.umask(mask)
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            with open(file, "rb+") as handle:
                os.fchmod(handle.fileno(), 0o666 & ~mask)  # safetensors makes its files private
                os.fsync(handle.fileno())


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

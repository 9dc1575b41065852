"""Files that no reader sees half-written and no two processes write at once, read back with errors in one line.

    with atomic(path) as part:          write to `part`, a file or a folder; it takes the place of `path` at the end
    with lock(folder / "lock", "…"):    be the only one at work; another process is told who is

A write is prepared in a hidden staging folder beside its target, which the writer locks while it lives:

    .medium-v0.x3k9a_0q.part/
      lock             held by its writer; says who that is
      new/medium-v0    what is being written, then what it has replaced
      replaced         what is being replaced, where the file system can't swap two folders in one step
"""

import contextlib
import ctypes
import errno
import fcntl
import importlib.util
import json
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from utds.errors import BusyError, ConfigError, DataError, Error

PATIENCE = 0.5  # seconds to wait for a lock: who merely looks whether it is held lets go sooner
UNLOCKED = (60.0, 86_400.0)  # age in seconds of what nobody can be at work on: with an empty lock, and with none
_STAGING = re.compile(r"\.(.+)\.[a-z0-9_]+\.part")
_LOCK, _NEW, _REPLACED, _OBSOLETE = "lock", "new", "replaced", "obsolete"
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # from file systems that have none
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux' renameat2

_held: set[tuple[int, int, str]] = set()  # process, thread and path of every lock held here
_cleaned: set[str] = set()  # folders that were cleaned up once


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary sibling of `path` to write to; it takes `path`'s place when the block ends well.

    The sibling may become a file or a folder. On any failure it is removed and `path` stays as it was. A kill leaves at
    most a hidden `.name.*.part` beside `path`, which no reader looks at and which the next process that writes to the
    folder removes.
    """
    path = Path(path)
    with explained(f"write {path}"):
        _refuse_special(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _staging(path) as staging:
            part = staging / _NEW / path.name
            yield part
            _sync(part)
            if part.is_dir() and path.is_dir():
                _swap(part, path, staging / _REPLACED)
            else:
                os.replace(part, path)
            _sync_folder(path.parent)


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a folder: it is there whole or gone. What a kill leaves of it is hidden; the next writer removes it."""
    path = Path(path)
    with explained(f"remove {path}"), _staging(path) as staging:
        os.rename(path, staging / _OBSOLETE)
        _sync_folder(path.parent)


def check_file(path: str | os.PathLike[str]) -> None:
    """Refuse a file that can't be written, before time is spent on what it is to hold. Nothing is changed."""
    path = Path(path)
    with explained(f"write {path}"):
        _refuse_special(path)
        if path.is_dir():
            raise DataError(f"could not write {path}: it is a folder; name a file")
        _try_below(path.parent)


def check_folder(path: str | os.PathLike[str]) -> None:
    """Refuse a folder that can't be written to, before time is spent on what it is to hold. Nothing is changed."""
    path = Path(path)
    with explained(f"write to {path}"):
        if path.exists() and not path.is_dir():
            raise DataError(f"could not write to {path}: it is a file; name a folder")
        _try_below(path)


def _try_below(folder: Path) -> None:
    """Make and remove something in a folder, or in the nearest one above that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    os.rmdir(tempfile.mkdtemp(prefix=".utds-", dir=folder))


def _refuse_special(path: Path) -> None:
    """Nothing takes the place of a device or a pipe."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"could not write {path}: it is a device or a pipe; name a file")


@contextlib.contextmanager
def lock(path: str | os.PathLike[str], what: str, wait: bool = False) -> Iterator[None]:
    """Be the only process that holds the lock file at `path` while the block runs.

    The lock ends with its holder, however that ends. The thread that holds it may take it again. Where the file system
    has no locks, there is none.

    Args:
        path: the lock file; it is made, and removed at the end
        what: what the lock is for, as in "the run runs/walk"
        wait: wait for the lock instead of raising a `BusyError` that says who holds it
    """
    key = (os.getpid(), threading.get_ident(), os.path.realpath(path))
    if key in _held:
        yield
        return
    with explained(f"write {path}"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        file = _acquire(path, what, wait)
    with file:
        _held.add(key)
        try:
            yield
        finally:
            _held.discard(key)
            Path(path).unlink(missing_ok=True)  # still held, so nobody else's


def locked(path: str | os.PathLike[str]) -> bool:
    """Whether a process holds the lock file at `path`."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def clean_up(folder: Path) -> None:
    """Remove what killed processes left half-written in a folder, and finish or undo what they were replacing.

    What living processes are writing is locked, and stays.
    """
    for staging, target in _staging_folders(folder):
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            if _abandoned(staging, target.name, held):
                _discard(staging, target)


def restore(folder: Path) -> None:
    """Bring back what was being replaced in a folder when its writer was killed, where replacing takes two steps."""
    aside = [
        (replaced.stat().st_ctime_ns, replaced, target)
        for staging, target in _staging_folders(folder)
        if not os.path.lexists(target) and (replaced := staging / _REPLACED).exists()
    ]
    # An earlier kill may have left an older one: the last to step aside is the one to bring back.
    for _, replaced, target in sorted(aside, reverse=True):
        deadline = time.monotonic() + PATIENCE
        while locked(replaced.with_name(_LOCK)) and not os.path.lexists(target) and time.monotonic() < deadline:
            time.sleep(0.001)  # a living writer is about to put the new one there
        if not os.path.lexists(target):
            with contextlib.suppress(OSError):  # another reader was quicker
                os.rename(replaced, target)


@contextlib.contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn the operating system's refusals inside the block into one clear line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(f"could not {doing}: the disk is full; free some space and try again") from error
        what = error.strerror or str(error) or type(error).__name__
        raise DataError(f"could not {doing}: {what.splitlines()[0]}") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, atomically."""
    with atomic(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as indented JSON, atomically. NaN and infinity are refused: JSON has none."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def run_named(variable: str) -> None:
    """Run the Python files that an environment variable names, separated as in `PATH`."""
    for path in filter(None, os.environ.get(variable, "").split(os.pathsep)):
        try:
            run_python(path, "utds_own_")
        except ConfigError as error:
            raise ConfigError(f"{variable}: {error}") from error


def run_python(path: str, prefix: str) -> ModuleType:
    """The module that a Python file makes; `prefix` begins its name, since the file may be called as a library is."""
    spec = importlib.util.spec_from_file_location(f"{prefix}{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ConfigError(f"{path} is no Python file; check its path")
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)  # where dataclasses look up types
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path}{line_in(str(spec.origin), error)}: {said(error)}") from error
    return module


def line_in(path: str, error: Exception) -> str:
    """The line of a file that led to an error, the innermost one; nothing where it has no part in it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    if isinstance(error, SyntaxError) and error.filename == path:
        lines.append(error.lineno)
    return f", line {lines[-1]}" if lines else ""


def said(error: Exception) -> str:
    """An error's message in one line, with its name where it isn't one of ours."""
    message = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
    return message if isinstance(error, Error) else f"{type(error).__name__}: {message}"


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
    except (RecursionError, ValueError):  # brackets in brackets without end, a number of thousands of digits
        raise DataError(f"{path} is no JSON that utds wrote; it was altered") from None


@contextlib.contextmanager
def _staging(path: Path) -> Iterator[Path]:
    """A hidden folder to prepare `path` in, locked while this process is at work in it."""
    _clean_up_once(path.parent)
    staging = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    with contextlib.ExitStack() as held:
        try:
            file = held.enter_context(open(staging / _LOCK, "w", encoding="utf-8"))
            _flock(file, fcntl.LOCK_EX)
            _sign(file)
            (staging / _NEW).mkdir()
            yield staging
        finally:
            with contextlib.suppress(OSError):  # what can't be removed now is removed by the next process
                _discard(staging, path)


def _swap(new: Path, old: Path, aside: Path) -> None:
    """Put the folder `new` in the place of `old`: at every instant one of them stands there, or a rename away."""
    if not _exchange(new, old):
        os.rename(old, aside)  # until the next line is done, `_discard` and `restore` undo this one
        os.rename(new, old)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names in one step, which Linux can on most file systems; whether it was done."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):  # not Linux
        return False
    renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(second))


def _discard(staging: Path, target: Path) -> None:
    """Remove a staging folder, after a replacement that stopped halfway is undone. Its lock goes last.

    What was replaced loses its name first: a kill while it is being deleted must not leave half of it to be restored.
    """
    if (staging / _REPLACED).exists():
        os.rename(staging / _REPLACED, staging / _OBSOLETE if os.path.lexists(target) else target)
    for entry in list(os.scandir(staging)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        elif entry.name != _LOCK:
            os.unlink(entry.path)
    shutil.rmtree(staging, ignore_errors=True)


def _staging_folders(folder: Path) -> Iterator[tuple[Path, Path]]:
    """The staging folders in a folder, of the living and of the dead, and what each is for."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            match = _STAGING.fullmatch(entry.name)
            if match and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path), folder / match[1]


def _abandoned(staging: Path, name: str, held: contextlib.ExitStack) -> bool:
    """Whether nobody can be at work in a staging folder; `held` then has its lock, lest another one cleans up too."""
    age = time.time() - staging.stat().st_mtime
    ours = {_LOCK, _NEW, _REPLACED, _OBSOLETE, name}.issuperset(os.listdir(staging))
    try:
        file = held.enter_context(open(staging / _LOCK, "r+", encoding="utf-8"))
    except FileNotFoundError:  # killed before the lock was made, or that of an earlier version
        return ours and age > UNLOCKED[1]
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return _holder(file) is not None or (ours and age > UNLOCKED[0])  # a writer signs once it holds the lock


def _clean_up_once(folder: Path) -> None:
    """Clean a folder up before this process first writes to it: looking each time would cost more than it is worth."""
    real = os.path.realpath(folder)
    if real not in _cleaned:
        clean_up(folder)
        _cleaned.add(real)


def _acquire(path: str | os.PathLike[str], what: str, wait: bool) -> IO[str]:
    """The lock file, open, held and signed."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.ExitStack() as closing:
            file = closing.enter_context(open(path, "a+", encoding="utf-8"))
            try:
                _flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                if time.monotonic() > deadline:
                    holder = _holder(file) or "another process"
                    raise BusyError(f"{what} is in use by {holder}; wait for it to end, or stop it") from None
                time.sleep(0.01)
                continue
            with contextlib.suppress(FileNotFoundError):  # its last holder removed it in the meantime
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    _sign(file)
                    closing.pop_all()
                    return file


def _flock(file: IO[str], mode: int) -> None:
    try:
        fcntl.flock(file, mode)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _sign(file: IO[str]) -> None:
    """Write into a lock who holds it."""
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    file.truncate(0)
    file.write(json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": since}) + "\n")
    file.flush()


def _holder(file: IO[str]) -> str | None:
    """Who signed a lock."""
    file.seek(0)
    try:
        found = json.loads(file.read(1000))
        return f"process {found['process']} on {found['host']} since {found['since']}"
    except (ValueError, KeyError, TypeError):
        return None


def _sync(path: Path) -> None:
    """Flush a file, or all of a folder, to the disk; readable for all whom the umask lets read."""
    mask = os.umask(0)
    os.umask(mask)
    for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
        if file.is_dir():
            _sync_folder(file)
        else:
            with open(file, "rb+") as handle:
                os.fchmod(handle.fileno(), 0o666 & ~mask)  # safetensors makes its files private
                os.fsync(handle.fileno())


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)  # not `open`, which takes no folder
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

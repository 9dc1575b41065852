"""Reading `.npz` files of others: numbers only, damage told in one line."""

import zipfile
from pathlib import Path

import numpy as np

from utds.errors import DataError
from utds.files import explained


def read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file; objects are refused unread, since reading one would run its code."""
    try:
        with explained(f"read {path}"), open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path} holds a Python object, not numbers; refused, since loading it could run code"
            ) from None
        raise DataError(f"{path} is no array file: {error}") from error
    except (zipfile.BadZipFile, EOFError, AttributeError, TypeError) as error:
        raise DataError(f"{path} is damaged or no .npz file ({error}); fetch it again") from error

"""Read a model file of a path that a user gave: a regular file of a bounded size."""

from __future__ import annotations

import os
import stat

import pyarrow.fs as pafs

from ulr.errors import UserError
from ulr.warehouse.storage import Storage

MAX_BYTES = 1 << 30  # ten thousand trees of a thousand leaves have about as many
_FIX = "give the text that LightGBM's save_model wrote"


def read_model_file(path: str, name: str) -> bytes:
    """Return the content of a local file or of an Arrow filesystem URL.

    Raise UserError if it is not a regular file, or is too large to be a model. name: of the model,
    for the message.
    """
    if "://" not in path:
        return _read_local(path, name)
    folder, _, file = path.rpartition("/")
    storage = Storage(folder)
    info = storage.fs.get_file_info(storage.path(file))
    if info.type != pafs.FileType.File:
        raise UserError(f"model {name} is not a file; {_FIX}")
    check_size(info.size, name)
    return storage.read_bytes(file)


def check_size(size: int, name: str) -> None:
    """Raise UserError if a model of this many bytes is not read."""
    if size > MAX_BYTES:
        raise UserError(
            f"model {name} has {size:,} bytes, and at most {MAX_BYTES:,} are read; {_FIX}"
        )


def _read_local(path: str, name: str) -> bytes:
    try:
        # Without O_NONBLOCK, opening a FIFO waits for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(f"model {name} cannot be read: {error.strerror}; {_FIX}") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"model {name} is not a regular file; {_FIX}")
        check_size(status.st_size, name)
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(status.st_size)
    finally:
        os.close(handle)

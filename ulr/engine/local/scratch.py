"""The scratch folder of this process: blocks on their way between tasks, shared values.

A folder holds a lock of its process. A folder whose lock is free belongs to a process that has
ended, as by SIGKILL, and is removed when the next one starts. Other folders are not touched.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from ulr.engine.interface import Blocks
from ulr.folders import private_folder

try:
    import fcntl
except ImportError:  # Windows: folders of processes that were killed stay
    fcntl = None  # type: ignore[assignment]

_LOCK, _PREFIX = "ulr.lock", "run-"


class Scratch:
    """Folders for temporary files. root: below which they are made; None: the temporary folder."""

    def __init__(self, root: str | None = None) -> None:
        self._root = root
        self._file: TextIO | None = None
        self._creating = threading.Lock()
        self._folder: Path | None = None

    @property
    def path(self) -> Path:
        """The folder of this process; created on first use."""
        with self._creating:
            if self._folder is None:
                root = Path(self._root) if self._root else private_folder("ulr-scratch")
                root.mkdir(parents=True, exist_ok=True)
                _remove_abandoned(root)
                self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
                self._file = (self._folder / _LOCK).open("w")
                if fcntl is not None:
                    fcntl.flock(self._file, fcntl.LOCK_EX)
            return self._folder

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield a new folder, and remove it at the end."""
        path = self.path / uuid.uuid4().hex
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def remove(self) -> None:
        """Remove everything."""
        with self._creating:
            folder, self._folder = self._folder, None
            if folder is not None and self._file is not None:
                shutil.rmtree(folder, ignore_errors=True)
                self._file.close()


def _remove_abandoned(root: Path) -> None:
    """Remove the folders of processes that have ended."""
    for lock in root.glob(f"{_PREFIX}*/{_LOCK}") if fcntl else ():
        with contextlib.suppress(OSError), lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)


class SharedFile:
    """A value that worker processes load from a file, once each."""

    def __init__(self, folder: Path, value: Any) -> None:
        self.path = str(folder / f"{uuid.uuid4().hex}.pickle")
        with open(self.path, "wb") as file:
            pickle.dump(value, file, protocol=pickle.HIGHEST_PROTOCOL)
        _loaded[self.path] = value

    def __getstate__(self) -> dict[str, str]:
        return {"path": self.path}

    @property
    def value(self) -> Any:
        """The value."""
        if self.path not in _loaded:
            with open(self.path, "rb") as file:
                _loaded.clear()  # of an earlier stage
                _loaded[self.path] = pickle.load(file)
        return _loaded[self.path]

    def close(self) -> None:
        """Delete the file."""
        _loaded.pop(self.path, None)
        with contextlib.suppress(OSError):
            os.unlink(self.path)


_loaded: dict[str, Any] = {}  # by path, in this process


@dataclass(frozen=True)
class BlockFile:
    """The blocks of a task, one after the other in a file. index: part, kind, offset, bytes."""

    path: str
    index: list[tuple[int, str, int, int]]

    def receivers(self, tasks: int) -> set[int]:
        """Return which of `tasks` receivers have blocks."""
        return {part % tasks for part, *_ in self.index}

    def blocks(self, tasks: int, task: int) -> Blocks:
        """Yield the blocks of one of `tasks` receivers."""
        own = [entry for entry in self.index if entry[0] % tasks == task]
        if not own:
            return
        with open(self.path, "rb") as file:  # an empty file cannot be mapped: there are no blocks
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        content = pa.py_buffer(mapped)
        for part, kind, start, size in own:
            yield part, kind, content.slice(start, size)


def write_blocks(blocks: Blocks, path: str) -> BlockFile:
    """Write blocks to a file."""
    index, start = [], 0
    with open(path, "wb") as file:
        for part, kind, content in blocks:
            file.write(content)
            index.append((part, kind, start, content.size))
            start += content.size
    if not start:  # blocks without content need no file
        index = [entry for entry in index if entry[3]]
    return BlockFile(path, index)

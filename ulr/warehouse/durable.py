"""Writes on a local filesystem that survive a power cut.

A rename is durable once the folder that holds the name is synced, and the content of a file once
the file is. Neither implies the other.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_THREADS = 8


def sync_path(path: str | Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network filesystems cannot sync a folder. An error of a file is never ignored.
        if error.errno != errno.EINVAL or not os.path.isdir(path):
            raise
    finally:
        os.close(descriptor)


def sync_tree(folder: str | Path) -> None:
    """Flush all files below a folder, then the folders, innermost first."""
    folders: list[str] = []
    files: list[str] = []
    for root, _, names in os.walk(folder):
        folders.append(root)
        files += (os.path.join(root, name) for name in names)
    _sync_all(files)
    for path in reversed(folders):
        sync_path(path)


def sync_parents(path: str | Path, top: str | Path) -> None:
    """Flush the folders that hold `path`, up to the one that holds `top`."""
    last = Path(top).parent
    for folder in Path(path).parents:
        sync_path(folder)
        if folder == last:
            return


def _sync_all(paths: Iterable[str]) -> None:
    # The disk merges concurrent flushes.
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(sync_path, paths))

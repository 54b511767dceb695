"""Folders and files in shared places, such as /tmp, that no other user can write or replace."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import TextIO

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_folder(name: str) -> Path:
    """Return the folder NAME-UID in the temporary folder, for this user only.

    If another user created that path, can write to it, or made it a symbolic link, return a new
    folder with a random name.
    """
    folder = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not is_private(folder):
            return Path(tempfile.mkdtemp(prefix=f"{name}-"))
    return folder


def is_private(folder: Path) -> bool:
    """Return whether only this user can write to the folder. A symbolic link is not a folder."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    owned = status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and owned and not status.st_mode & _OTHERS_WRITE


def is_trusted(folder: Path) -> bool:
    """Return whether no other user but root can write to the folder; links are followed.

    A folder that does not exist is trusted if its nearest existing parent is.
    """
    for place in (folder, *folder.absolute().parents):
        try:
            status = place.stat()
        except FileNotFoundError:
            continue
        except OSError:
            return False
        return status.st_uid in (0, os.getuid()) and not status.st_mode & _OTHERS_WRITE
    return False


def open_private(path: Path) -> TextIO:
    """Open a file of a private folder to append text; refuse to follow a symbolic link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8", errors="backslashreplace")

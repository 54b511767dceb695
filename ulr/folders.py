"""Folders and files in shared places, such as /tmp, that no other user can write or replace."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import TextIO

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_folder(name: str, root: str | None = None) -> Path:
    """Return the folder NAME-UID in `root`, by default the temporary folder, for this user only.

    If another user created that path, can write to it, or made it a symbolic link, return a new
    folder with a random name.
    """
    folder = Path(root or tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not is_private(folder):
            return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root))
    return folder


def is_private(folder: Path) -> bool:
    """Return whether only this user can write to the folder. A symbolic link is not a folder."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    owned = status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and owned and not status.st_mode & _OTHERS_WRITE


def is_trusted(folder: Path, *owners: int) -> bool:
    """Return whether only this user, root and the given owners can write to the folder.

    A group that is named after this user has no other members. In a parent folder that everybody
    can write and that has no sticky bit, the folder could be replaced.
    """
    try:
        status, parent = folder.stat(), folder.absolute().parent.stat().st_mode
    except OSError:
        return False
    shared = status.st_mode & stat.S_IWOTH or (parent & stat.S_IWOTH and not parent & stat.S_ISVTX)
    if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
        return False
    return not shared and status.st_uid in (0, os.getuid(), *owners)


def _is_own_group(gid: int) -> bool:
    try:
        return grp.getgrgid(gid).gr_name == pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return False


def open_private(path: Path) -> TextIO:
    """Open a file of a private folder to append text; refuse to follow a symbolic link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8", errors="backslashreplace")

"""Small filesystems of root: a tmpfs that can be full, an ext4 that can lose its power."""

from __future__ import annotations

import ctypes
import fcntl
import os
import subprocess
from pathlib import Path

_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2  # forget what the journal has not written, as a power cut does
_COMMIT_S = 1  # the journal's interval; the default of 5 s would only make the faults slower


def cannot_mount() -> str:
    """Return why this process cannot mount a filesystem, or ""."""
    if os.geteuid():
        return "mounting a filesystem needs root"
    run = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True,
        check=False,
    )  # fmt: skip
    return run.stderr.decode().strip() if run.returncode else ""


def mount_tmpfs(path: Path, size: int) -> None:
    """Mount a filesystem in memory with `size` bytes."""
    path.mkdir(exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))


def resize_tmpfs(path: Path, size: int) -> None:
    """Change the size of a mounted filesystem."""
    _run("mount", "-o", f"remount,size={size}", str(path))


class PowerCutDisk:
    """An ext4 filesystem in a file; `cut` loses everything that was not forced to the disk."""

    def __init__(self, folder: Path, megabytes: int = 96) -> None:
        self._image, self.path = folder / "disk.img", folder / "disk"
        self.path.mkdir()
        with self._image.open("wb") as file:
            file.truncate(megabytes << 20)
        # Without lazy initialisation, the kernel writes nothing by itself after the mount.
        options = "lazy_itable_init=0,lazy_journal_init=0"
        _run("mkfs.ext4", "-q", "-E", options, str(self._image))
        self._mount()
        self.flush()

    def flush(self) -> None:
        """Force what was written to the disk; os.sync would do so for the disks of all faults."""
        _run("sync", "-f", str(self.path))

    def _mount(self) -> None:
        _run("mount", "-o", f"loop,commit={_COMMIT_S}", str(self._image), str(self.path))

    def cut(self) -> None:
        """Cut the power: the filesystem accepts and writes nothing more."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _EXT4_IOC_SHUTDOWN, ctypes.c_uint32(_NO_LOG_FLUSH))
        finally:
            os.close(folder)

    def restore(self) -> None:
        """Mount the filesystem again, as after a restart; the journal is replayed."""
        _run("umount", str(self.path))
        self._mount()


def _run(*command: str) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)}: {run.stderr.strip()}")

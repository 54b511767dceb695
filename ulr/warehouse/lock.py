"""Locks on folders of the warehouse: each has at most one writer at a time.

On a local filesystem the lock is flock: the kernel releases it when the process ends. Elsewhere it
is a lease: a small file that its owner renews and that expires soon after the owner stops. On an
object store a lease is created, renewed and taken over by conditional writes. It is advisory there:
a second run stops at once instead of computing for nothing, and publication does not depend on it.
If the owner was paused for longer than its lease, another process may hold the lock; ownership is
checked again before renewing, publishing and releasing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ulr.errors import LockTaken, UserError
from ulr.warehouse.filesystem import PreconditionFailed
from ulr.warehouse.storage import Storage

LEASE_S = 60.0
# HDFS: delay between writing a claim and reading it back. The last of simultaneous claims wins.
SETTLE_S = 1.0
_NAME = ".lock"

CheckOwner = Callable[[], None]  # raises UserError if another process holds the lock


@contextlib.contextmanager
def hold(storage: Storage, folder: str, name: str) -> Iterator[CheckOwner]:
    """Hold the folder's lock; raise UserError with its owner if another process holds it.

    name: the folder's name in error messages.
    """
    with (_flock if storage.is_local else lease)(storage, folder, name) as check_owner:
        yield check_owner


def _this_process() -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%F %T %Z")}


def _taken(name: str, owner: dict[str, Any]) -> LockTaken:
    holder = f"process {owner.get('pid')} on {owner.get('host')} since {owner.get('since')}"
    return LockTaken(f"{name} is being written by {holder}; wait for it, or stop it, and run again")


@contextlib.contextmanager
def _flock(storage: Storage, folder: str, name: str) -> Iterator[CheckOwner]:
    path = Path(storage.path(folder, _NAME))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise _taken(name, _owner(file.read())) from None
        file.truncate(0)
        file.write(json.dumps(_this_process()))
        file.flush()
        yield lambda: None  # the kernel holds the lock until the process ends
        file.truncate(0)


def _owner(text: str) -> dict[str, Any]:
    try:
        owner: dict[str, Any] = json.loads(text)
        return owner
    except ValueError:  # the owner has taken the lock but not written the file yet
        return {}


class _Lease:
    """The file of a lease and the claim that this process writes into it."""

    def __init__(self, storage: Storage, folder: str, name: str) -> None:
        self._storage, self._folder, self._name = storage, folder, name
        self._claim = {**_this_process(), "token": uuid.uuid4().hex}
        self._version: str | None = None
        self._renewing = threading.Lock()  # the block and the renewing thread both renew

    def acquire(self) -> None:
        """Create the file, or take it over if it has expired; raise LockTaken otherwise."""
        current = self._storage.read_version(self._folder, _NAME)
        owner = _owner(current[0].decode(errors="replace")) if current else {}
        if owner.get("until", 0.0) > time.time():
            raise _taken(self._name, owner)
        try:
            self._write(current[1] if current else None, time.time() + LEASE_S)
        except PreconditionFailed:
            raise _taken(self._name, self._read_owner()) from None
        if not self._storage.is_conditional:
            time.sleep(SETTLE_S)
            if self._read_owner().get("token") != self._claim["token"]:
                raise _taken(self._name, self._read_owner())

    def renew(self) -> None:
        """Extend the lease; raise UserError if another process has taken it over."""
        with self._renewing:
            try:
                self._write(self._version, time.time() + LEASE_S)
            except PreconditionFailed:
                raise LockTaken(
                    f"{self._name}: this run was paused for longer than its lock lasts "
                    f"({LEASE_S:.0f} s), and another has begun to write; nothing was published, "
                    "run again"
                ) from None

    def release(self) -> None:
        """Let the lease expire at once, unless another process has taken it over."""
        with contextlib.suppress(PreconditionFailed, OSError, UserError), self._renewing:
            self._write(self._version, 0.0)

    def _write(self, expected: str | None, until: float) -> None:
        content = json.dumps({**self._claim, "until": until}).encode()
        self._version = self._storage.swap(content, expected, self._folder, _NAME)

    def _read_owner(self) -> dict[str, Any]:
        current = self._storage.read_version(self._folder, _NAME)
        return _owner(current[0].decode(errors="replace")) if current else {}


@contextlib.contextmanager
def lease(storage: Storage, folder: str, name: str) -> Iterator[CheckOwner]:
    """Hold the folder's lock as a lease, renewed by a thread until the block ends."""
    held = _Lease(storage, folder, name)
    held.acquire()
    done = threading.Event()
    renewer = threading.Thread(target=_renew_regularly, args=(held.renew, done), daemon=True)
    renewer.start()
    try:
        yield held.renew
    finally:
        done.set()
        renewer.join()
        held.release()


def _renew_regularly(renew: CheckOwner, done: threading.Event) -> None:
    """Renew four times per lease, so that one or two storage errors do not end it."""
    while not done.wait(LEASE_S / 4):
        try:
            renew()
        except LockTaken:  # another process took over; publishing will raise
            return
        except (OSError, ValueError, pa.ArrowException):
            continue

"""Locks on folders of the warehouse: each has at most one writer at a time.

On a local filesystem the lock is flock: the kernel releases it when the process ends. Elsewhere it
is a lease: a small file that its owner renews and that expires soon after the owner stops. If the
owner was paused for longer than its lease, another process may hold the lock; ownership is checked
again before renewing, publishing and releasing.
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
from ulr.warehouse.storage import Storage

LEASE_S = 60.0
# Delay between writing a claim and reading it back. The last of several simultaneous claims wins.
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


@contextlib.contextmanager
def lease(storage: Storage, folder: str, name: str) -> Iterator[CheckOwner]:
    """Hold the folder's lock as a lease, renewed by a thread until the block ends."""
    claim = {**_this_process(), "token": uuid.uuid4().hex}
    current = storage.read_json(folder, _NAME)
    if current and current["until"] > time.time():
        raise _taken(name, current)

    def write() -> None:
        storage.write_json({**claim, "until": time.time() + LEASE_S}, folder, _NAME)

    def is_owner() -> bool:
        return bool((storage.read_json(folder, _NAME) or {}).get("token") == claim["token"])

    def renew() -> None:
        if not is_owner():
            raise UserError(
                f"{name}: this run was paused for longer than its lock lasts ({LEASE_S:.0f} s), "
                "and another has begun to write; nothing was published, run again"
            )
        write()

    write()
    time.sleep(SETTLE_S)
    if not is_owner():
        raise _taken(name, storage.read_json(folder, _NAME) or {})
    done = threading.Event()
    renewer = threading.Thread(target=_renew_regularly, args=(renew, done), daemon=True)
    renewer.start()
    try:
        yield renew
    finally:
        done.set()
        renewer.join()
        with contextlib.suppress(OSError):  # a lock that cannot be deleted expires
            if is_owner():
                storage.delete(folder, _NAME)


def _renew_regularly(renew: CheckOwner, done: threading.Event) -> None:
    """Renew four times per lease, so that one or two storage errors do not end it."""
    while not done.wait(LEASE_S / 4):
        try:
            renew()
        except UserError:  # another process took over; publishing will raise
            return
        except (OSError, ValueError, pa.ArrowException):
            continue

"""One writer at a time for a folder of the warehouse.

On a local filesystem the lock is the kernel's (flock): it goes with the process, however that
ends. Elsewhere it is a lease: a small file, renewed while its owner lives and void soon after. An
owner that slept through its lease may have a successor, so it looks whose lock it is before it
renews, publishes or lets go.
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

from ulr.errors import UserError
from ulr.warehouse.storage import Storage

LEASE_S = 60.0
SETTLE_S = 1.0  # after this long the last of two claims made at once is seen by both
_NAME = ".lock"


CheckOwner = Callable[[], None]  # raises when the lock is no longer its owner's


@contextlib.contextmanager
def hold(storage: Storage, folder: str, what: str) -> Iterator[CheckOwner]:
    """Hold the folder's lock, or raise at once with the name of who does."""
    with (_flock if storage.is_local else lease)(storage, folder, what) as check_owner:
        yield check_owner


def _me() -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%F %T %Z")}


def _refuse(what: str, owner: dict[str, Any]) -> UserError:
    who = f"process {owner.get('pid')} on {owner.get('host')} since {owner.get('since')}"
    return UserError(f"{what} is being written by {who}; wait for it, or stop it, and run again")


@contextlib.contextmanager
def _flock(storage: Storage, folder: str, what: str) -> Iterator[CheckOwner]:
    path = Path(storage.path(folder, _NAME))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise _refuse(what, _owner(file.read())) from None
        file.truncate(0)
        file.write(json.dumps(_me()))
        file.flush()
        yield lambda: None  # the kernel takes it from nobody who lives
        file.truncate(0)


def _owner(text: str) -> dict[str, Any]:
    try:
        return json.loads(text)
    except ValueError:  # the owner has the lock but has not signed yet
        return {}


@contextlib.contextmanager
def lease(storage: Storage, folder: str, what: str) -> Iterator[CheckOwner]:
    """Claim the folder with a file that is renewed until the block ends."""
    claim = {**_me(), "token": uuid.uuid4().hex}
    found = storage.read_json(folder, _NAME)
    if found and found["until"] > time.time():
        raise _refuse(what, found)

    def write() -> None:
        storage.write_json({**claim, "until": time.time() + LEASE_S}, folder, _NAME)

    def mine() -> bool:
        return (storage.read_json(folder, _NAME) or {}).get("token") == claim["token"]

    def renew() -> None:
        if not mine():
            raise UserError(
                f"{what}: this run was held up for longer than its lock lives ({LEASE_S:.0f} s), "
                "and another has begun to write; nothing was published, run again"
            )
        write()

    write()
    time.sleep(SETTLE_S)
    if not mine():
        raise _refuse(what, storage.read_json(folder, _NAME) or {})
    done = threading.Event()
    keeper = threading.Thread(target=_keep, args=(renew, done), daemon=True)
    keeper.start()
    try:
        yield renew
    finally:
        done.set()
        keeper.join()
        with contextlib.suppress(OSError):  # a lock that cannot be reached runs out by itself
            if mine():
                storage.delete(folder, _NAME)


def _keep(renew: CheckOwner, done: threading.Event) -> None:
    """Renew four times a lease: a store that fails once or twice does not end it."""
    while not done.wait(LEASE_S / 4):
        try:
            renew()
        except UserError:  # another's: the owner is told when it publishes
            return
        except (OSError, ValueError, pa.ArrowException):
            continue

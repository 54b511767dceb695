"""One writer at a time for a folder of the warehouse.

On a local filesystem the lock is the kernel's (flock): it goes with the process, however that
ends. Elsewhere it is a lease: a small file, renewed while its owner lives and void soon after.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ulr.errors import UserError
from ulr.storage import Storage

LEASE_S = 60.0
SETTLE_S = 1.0  # after this long the last of two claims made at once is seen by both
_NAME = ".lock"


@contextlib.contextmanager
def hold(storage: Storage, folder: str, what: str) -> Iterator[None]:
    """Hold the folder's lock, or raise at once with the name of who does."""
    with (_flock if storage.is_local else lease)(storage, folder, what):
        yield


def _me() -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%F %T %Z")}


def _refuse(what: str, owner: dict[str, Any]) -> UserError:
    who = f"process {owner.get('pid')} on {owner.get('host')} since {owner.get('since')}"
    return UserError(f"{what} is being written by {who}; wait for it, or stop it, and run again")


@contextlib.contextmanager
def _flock(storage: Storage, folder: str, what: str) -> Iterator[None]:
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
        yield
        file.truncate(0)


def _owner(text: str) -> dict[str, Any]:
    try:
        return json.loads(text)
    except ValueError:  # the owner has the lock but has not signed yet
        return {}


@contextlib.contextmanager
def lease(storage: Storage, folder: str, what: str) -> Iterator[None]:
    """Claim the folder with a file that is renewed until the block ends."""
    claim = {**_me(), "token": uuid.uuid4().hex}
    found = storage.read_json(folder, _NAME)
    if found and found["until"] > time.time():
        raise _refuse(what, found)

    def renew() -> None:
        storage.write_json({**claim, "until": time.time() + LEASE_S}, folder, _NAME)

    renew()
    time.sleep(SETTLE_S)
    found = storage.read_json(folder, _NAME) or {}
    if found.get("token") != claim["token"]:
        raise _refuse(what, found)
    done = threading.Event()

    def keep() -> None:
        while not done.wait(LEASE_S / 4):
            renew()

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()
        storage.delete(folder, _NAME)

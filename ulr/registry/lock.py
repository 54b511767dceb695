"""The lock that writers of the registry share: one at a time per warehouse.

MLflow has no transaction over "search for the training, then register it". Writers that share no
warehouse are not excluded; `duplicates` removes what they register twice.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from ulr.errors import LockTaken
from ulr.warehouse.lock import hold
from ulr.warehouse.tables import Warehouse

FOLDER = "registry"  # of the warehouse
WAIT_S = 60.0  # a registration takes seconds, and longer only if the server does not answer
_POLL_S = 0.2


@contextlib.contextmanager
def registry_lock(warehouse: Warehouse) -> Iterator[None]:
    """Hold the lock; if another process holds it for longer than WAIT_S, raise LockTaken.

    An overlay uses the lock of the warehouse that it is based on.
    """
    storage, end = warehouse.layers()[-1].storage, time.monotonic() + WAIT_S
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(hold(storage, FOLDER, "the model registry"))
                break
            except LockTaken:
                if time.monotonic() > end:
                    raise
                time.sleep(_POLL_S)
        yield

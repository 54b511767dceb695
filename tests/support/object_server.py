"""An S3 server on the loopback interface."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Iterator
from typing import Any

from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

_writing = threading.Lock()


def _one_at_a_time(put: Any) -> Any:
    @functools.wraps(put)
    def locked(self: Any) -> Any:
        with _writing:
            return put(self)

    return locked


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """Yield HOST:PORT of a server whose conditional writes are atomic, as those of S3 are.

    moto compares and writes in two steps, between which another request may be served.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    put = S3Response.put_object
    S3Response.put_object = _one_at_a_time(put)
    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    try:
        yield ":".join(map(str, moto.get_host_and_port()))
    finally:
        moto.stop()
        S3Response.put_object = put

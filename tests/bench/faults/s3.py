"""An S3 server behind a proxy, a table on it, and writers on threads or in processes."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import pyarrow as pa
from moto.server import ThreadedMotoServer

from tests.support.proxy import FaultProxy
from ulr.warehouse.tables import Warehouse

TEMPORARY = 1  # exit code of a failure that may pass if tried again


@dataclass(frozen=True)
class Store:
    """A warehouse on the server, and the same through the proxy."""

    url: str
    proxy: FaultProxy
    url_of_proxy: str

    def publish(self, number: int) -> None:
        """Publish a version without the proxy."""
        publish(self.url, number)

    def read(self) -> int:
        """Return the number of the published version."""
        return number_of(Warehouse(self.url).read("scores"))

    def expire_lock(self) -> None:
        """Let the lock expire, as if its owner had been paused for longer than it lasts."""
        expired = {"token": "expired", "until": 0}
        Warehouse(self.url).storage.write_json(expired, "scores", ".lock")


@contextlib.contextmanager
def running_store() -> Iterator[Store]:
    """Run a server and a proxy; version 0 of the table is published."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    server = "{}:{}".format(*moto.get_host_and_port())
    with FaultProxy(f"http://{server}") as proxy:
        store = Store(_url(server), proxy, _url(proxy.url.removeprefix("http://")))
        store.publish(0)
        yield store
    moto.stop()


def _url(server: str) -> str:
    options = {"endpoint_override": server, "scheme": "http", "region": "us-east-1",
               "allow_bucket_creation": "true"}  # fmt: skip
    return "s3://user:password@bucket/tables?" + "&".join(f"{k}={v}" for k, v in options.items())


def publish(url: str, number: int) -> None:
    """Publish version `number`; its manifest has a length of its own."""
    with Warehouse(url).writing("scores", "", f"v{number}", inputs="x" * 97 * number) as writing:
        writing.write_table(table_of(number))
        writing.publish({"rows": number})


def table_of(number: int) -> pa.Table:
    return pa.table({"version": pa.array([number] * (10 + number), pa.int64())})


def number_of(table: pa.Table) -> int:
    number = table["version"][0].as_py()
    assert table.equals(table_of(number)), "a table of two versions"
    return int(number)


class Attempt:
    """A call on a thread."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self._error = call, ""
        self.exit_code = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:
            self._error = _text(error)
            self.exit_code = getattr(error, "exit_code", TEMPORARY)

    def error(self) -> str:
        """Wait for the end; return the error, or ""."""
        self._thread.join()
        return self._error


class Writer:
    """A process that calls functions."""

    def __init__(self) -> None:
        context = get_context("fork")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Start a call."""
        self._pipe.send((function, arguments))

    def result(self) -> str:
        """Wait for the end of the call; return its error, or ""."""
        error: str = self._pipe.recv()
        return error

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()


def _serve(pipe: Any) -> None:
    while True:
        function, arguments = pipe.recv()
        try:
            function(*arguments)
            pipe.send("")
        except Exception as error:
            pipe.send(_text(error))


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:150]}"

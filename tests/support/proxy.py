"""An HTTP proxy in front of a real server that loses, delays or cuts chosen requests and answers.

    with FaultProxy("http://127.0.0.1:5000") as proxy:
        proxy.add("lose answer", "model-versions/create")       # the first such request
        proxy.add("lose request", "runs/create", nth=2)         # the second
        proxy.add("hold request", "manifest.json", method="PUT")
        ...                                                      # use proxy.url as the server
        proxy.release()                                          # held requests go on
        proxy.seen("runs/create")                                # how often it was requested

The actions:

| action         | the server                           | the client                            |
|----------------|--------------------------------------|---------------------------------------|
| lose request   | never receives it                    | closed connection                     |
| lose answer    | processes it                         | closed connection                     |
| cut answer     | processes it                         | the first half of the answer          |
| hold request   | receives it after `release()`        | waits; it may give up in the meantime |
| hold answer    | processes it at once                 | the answer after `release()`          |
| delay request  | receives it after `seconds`          | waits, as above                       |
| delay answer   | processes it at once                 | the answer after `seconds`            |
| unavailable    | never receives it                    | status 503                            |
| replace answer | processes it                         | `answer` (bytes, a whole response)    |

Every request has its own connection to the server. The header Host is passed on unchanged, so that
signatures of object stores stay valid. Held and delayed requests reach the server even if the
client has given up in the meantime.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO

ACTIONS = (
    "lose request", "lose answer", "cut answer", "hold request", "hold answer", "delay request",
    "delay answer", "unavailable", "replace answer",
)  # fmt: skip
_UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_BLOCK = 1 << 16


@dataclass
class Fault:
    """What happens to the nth request, and the `times - 1` after it, that match path and method."""

    action: str
    path: str
    method: str | None = None
    nth: int = 1
    times: int = 1
    seconds: float = 0.0
    answer: bytes = b""
    matched: int = 0

    def applies(self, method: str, target: str) -> bool:
        """Count a request and return whether it is a chosen one."""
        if self.path not in target or self.method not in (None, method):
            return False
        self.matched += 1
        return self.nth <= self.matched < self.nth + self.times


@dataclass(frozen=True)
class Request:
    """A request that the proxy received. action: of the fault, empty if there was none."""

    method: str
    target: str
    action: str


@dataclass(frozen=True)
class _Message:
    head: bytes
    body: bytes


class FaultProxy:
    """A proxy at `url` for the server at `upstream`; a context manager."""

    def __init__(self, upstream: str) -> None:
        address = urllib.parse.urlsplit(upstream)
        self._upstream = (address.hostname or "127.0.0.1", address.port or 80)
        self._faults: list[Fault] = []
        self._lock, self._released = threading.Lock(), threading.Event()
        self.requests: list[Request] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.release()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def add(
        self, action: str, path: str, *, method: str | None = None, nth: int = 1, times: int = 1,
        seconds: float = 0.0, answer: bytes = b"",
    ) -> Fault:  # fmt: skip
        """Add a fault for requests whose target (path and query) contains `path`."""
        if action not in ACTIONS:
            raise ValueError(f"action {action!r}; expected one of {', '.join(ACTIONS)}")
        fault = Fault(action, path, method, nth, times, seconds, answer)
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Remove all faults and the record of requests."""
        with self._lock:
            self._faults.clear()
            self.requests.clear()

    def release(self) -> None:
        """Let held requests and answers go on, also later ones."""
        self._released.set()

    def hold(self) -> None:
        """Hold chosen requests again after `release`."""
        self._released.clear()

    def seen(self, path: str, action: str | None = None) -> int:
        """Return how many requests contained `path`; with `action`, those it was applied to."""
        with self._lock:
            return sum(path in r.target and action in (None, r.action) for r in self.requests)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            request = _read_request(client)
            if request is None:
                return
            method, target, _ = request.head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
            fault = self._choose(method, target)
            answer = self._answer(request, fault)
            if answer:
                client.sendall(answer)

    def _choose(self, method: str, target: str) -> Fault | None:
        with self._lock:
            chosen = [fault for fault in self._faults if fault.applies(method, target)]
            fault = chosen[0] if chosen else None
            self.requests.append(Request(method, target, fault.action if fault else ""))
            return fault

    def _answer(self, request: _Message, fault: Fault | None) -> bytes:
        """Return the bytes for the client; empty: close the connection."""
        action = fault.action if fault else ""
        if fault is None:
            return self._forward(request)
        if action == "lose request":
            return b""
        if action == "unavailable":
            return _UNAVAILABLE
        if action == "hold request":
            self._released.wait()
        if action == "delay request":
            time.sleep(fault.seconds)
        answer = self._forward(request)
        if action == "hold answer":
            self._released.wait()
        if action == "delay answer":
            time.sleep(fault.seconds)
        if action == "cut answer":
            return answer[: len(answer) // 2]
        if action == "replace answer":
            return fault.answer
        return b"" if action == "lose answer" else answer

    def _forward(self, request: _Message) -> bytes:
        """Send the request to the server and return the whole answer; empty if it is down."""
        with contextlib.suppress(OSError), socket.create_connection(self._upstream) as server:
            server.sendall(_closing(request.head) + request.body)
            return b"".join(iter(lambda: server.recv(_BLOCK), b""))
        return b""


def _closing(head: bytes) -> bytes:
    """Return the head with `Connection: close`, so that the answer ends with the connection."""
    first, *lines = head.rstrip(b"\r\n").split(b"\r\n")
    kept = [li for li in lines if not li.lower().startswith((b"connection:", b"expect:"))]
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


def _read_request(client: socket.socket) -> _Message | None:
    """Return a request with its body, or None if the client closed the connection."""
    with client.makefile("rb") as stream:
        lines = []
        while line := stream.readline(_BLOCK):
            lines.append(line)
            if line == b"\r\n":
                break
        if not lines or lines[-1] != b"\r\n":
            return None
        head = b"".join(lines)
        pairs = (line.decode("latin-1").partition(":") for line in lines[1:-1])
        fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if fields.get("expect", "").lower() == "100-continue":
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if fields.get("transfer-encoding", "").lower() == "chunked":
            body = b"".join(_chunks(stream))
        else:
            body = stream.read(int(fields.get("content-length", "0")))
        return _Message(head, body)


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield a chunked body as it was sent."""
    while True:
        line = stream.readline()
        yield line
        size = int(line.partition(b";")[0], 16)
        yield stream.read(size + 2) if size else stream.readline()
        if not size:
            return

"""Delays, races and lost answers between writers, readers and an object store.

The store is an S3 server on the loopback interface, behind a proxy that holds or loses requests.
Writers that race or are killed are processes of their own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.faults.campaign import (
    Fault,
    Kind,
    Result,
    crashed,
    lost,
    nothing,
    seeded,
    survived,
)
from tests.bench.faults.s3 import (
    TEMPORARY,
    Attempt,
    Store,
    Writer,
    number_of,
    publish,
    running_store,
    table_of,
)
from tests.support.waiting import wait_until
from ulr.warehouse import tables
from ulr.warehouse.tables import Warehouse

_LIMIT_S = 120.0
_RETRIES = 20  # a client that gives up may send its request again; these are held too
_ANSWERS = [
    (action, path, method)
    for path, method in (("manifest.json", "PUT"), ("part-00000.parquet", "PUT"), (".lock", "PUT"),
                         ("manifest.json", "GET"))
    for action in ("lose answer", "cut answer", "lose request", "unavailable")
]  # fmt: skip


def faults(prepared: None, seed: int, quick: bool) -> list[Fault]:
    """Return late manifests, readers between publications, races, and lost answers."""
    times = 1 if quick else 6
    cases: list[tuple[str, Callable[..., Result]]] = [
        *((f"late-manifest-{n}", _late_manifest) for n in range(times)),
        *((f"late-manifest-of-killed-{n}", _late_manifest_of_killed) for n in range(times)),
        *((f"long-reader-{n}", _long_reader) for n in range(times)),
        *((f"manifest-replaced-while-read-{n}", _replaced_while_read) for n in range(times)),
        *((f"race-{n}", _race) for n in range(times)),
        *((f"race-without-lock-{n}", _race_without_lock) for n in range(times)),
    ]
    if not quick:
        cases += [
            (
                f"{action} {path} {method}".replace(" ", "-"),
                partial(_answer, action=action, path=path, method=method),
            )
            for action, path, method in _ANSWERS
        ]
        cases += [(f"outage-{n}", _outage) for n in range(3)]
    return [
        Fault("store", name, partial(run, seed=seed, name=name), _LIMIT_S) for name, run in cases
    ]


def _late_manifest(folder: Path, *, seed: int, name: str) -> Result:
    """A manifest is held on its way; others are published; then it arrives."""
    newer = seeded(seed, "store", name).randrange(1, 4)
    with running_store() as store:
        store.proxy.add("hold request", "manifest.json", method="PUT", times=_RETRIES)
        late = Attempt(partial(publish, store.url_of_proxy, 9))
        wait_until(lambda: store.proxy.seen("manifest.json", "hold request"), limit_s=60)
        store.expire_lock()
        for number in range(1, newer + 1):
            store.publish(number)
        store.proxy.release()
        error = late.error()
        return _expect(store, {newer}, f"{newer} newer versions; the late writer: {error}")


def _late_manifest_of_killed(folder: Path, *, seed: int, name: str) -> Result:
    """As before, and the writer is killed while its request is on its way."""
    newer = seeded(seed, "store", name).randrange(1, 4)
    writer = Writer()  # forked before the server starts its threads
    with running_store() as store:
        store.proxy.add("hold request", "manifest.json", method="PUT", times=_RETRIES)
        writer.call(publish, store.url_of_proxy, 9)
        wait_until(lambda: store.proxy.seen("manifest.json", "hold request"), limit_s=60)
        writer.kill()
        store.expire_lock()
        for number in range(1, newer + 1):
            store.publish(number)
        store.proxy.release()
        time.sleep(1.0)  # the proxy does not report when the server has answered
        return _expect(store, {newer}, f"{newer} newer versions")


def _long_reader(folder: Path, *, seed: int, name: str) -> Result:
    """A reader that holds a list of files reads them after further publications."""
    newer = seeded(seed, "store", name).randrange(2, 5)
    with running_store() as store:
        reader = Warehouse(store.url)
        files = reader.files("scores")
        for number in range(1, newer + 1):
            store.publish(number)
        try:
            content = [pq.read_table(file, filesystem=reader.storage.fs) for file in files]
        except OSError as error:
            return lost(f"{newer} publications later: {str(error)[:150]}")
        if number_of(pa.concat_tables(content)) != 0:
            return lost("another version than the list of files names")
        return _expect(store, {newer}, f"{newer} publications while it read")


def _replaced_while_read(folder: Path, *, seed: int, name: str) -> Result:
    """The manifest is replaced by a longer or shorter one between two requests of a reader."""
    rng = seeded(seed, "store", name)
    before, after = rng.sample(range(1, 9), 2)
    with running_store() as store:
        store.publish(before)
        store.proxy.add("hold request", "scores/manifest.json", method="GET", times=_RETRIES)
        values: list[int] = []
        reader = Attempt(
            lambda: values.append(number_of(Warehouse(store.url_of_proxy).read("scores")))
        )
        wait_until(lambda: store.proxy.seen("manifest.json", "hold request"), limit_s=60)
        store.publish(after)
        store.proxy.release()
        if error := reader.error():
            return lost(f"version {before} replaced by {after}: the reader got {error}")
        if values[0] not in {before, after}:
            return lost(f"the reader got version {values[0]} of {before} and {after}")
        return _expect(store, {after}, f"the reader got {values[0]} of {before} and {after}")


def _race(folder: Path, *, seed: int, name: str) -> Result:
    """Some processes publish at once; the table is that of one that reported success."""
    count = seeded(seed, "store", name).randrange(2, 5)
    writers = [Writer() for _ in range(count)]
    with running_store() as store:
        for number, writer in enumerate(writers, start=1):
            writer.call(publish, store.url, number)
        errors = [writer.result() for writer in writers]
        winners = {number for number, error in enumerate(errors, start=1) if not error}
        if not winners:
            return lost(f"none of {count} writers published: {errors}")
        return _expect(store, winners, f"{len(winners)} of {count} published")


def _race_without_lock(folder: Path, *, seed: int, name: str) -> Result:
    """As before, with locks that exclude no other writer: exactly one may report success."""
    count = seeded(seed, "store", name).randrange(2, 5)
    writers = [Writer() for _ in range(count)]
    with running_store() as store:
        for number, writer in enumerate(writers, start=1):
            writer.call(_open_without_lock, store.url, number)
        for writer in writers:
            if error := writer.result():
                return crashed(f"a writer could not begin: {error}")
        for writer in writers:
            writer.call(_publish_opened)
        errors = [writer.result() for writer in writers]
        winners = {number for number, error in enumerate(errors, start=1) if not error}
        if len(winners) != 1:
            return lost(f"{len(winners)} of {count} writers of one version reported success")
        return _expect(store, winners, f"1 of {count} published")


_opened: list[Any] = []


def _open_without_lock(url: str, number: int) -> None:
    tables.hold = lambda *_: contextlib.nullcontext(lambda: None)
    writing = Warehouse(url).writing("scores", "", f"v{number}")
    transaction = writing.__enter__()
    transaction.write_table(table_of(number))
    _opened.extend([writing, transaction])


def _publish_opened() -> None:
    writing, transaction = _opened
    with contextlib.ExitStack() as stack:
        stack.push(writing.__exit__)
        transaction.publish({})


def _answer(folder: Path, *, action: str, path: str, method: str, seed: int, name: str) -> Result:
    """Lose requests or answers of one kind while a version is published."""
    times = seeded(seed, "store", name).randrange(1, 4)
    with running_store() as store:
        store.proxy.add(action, path, method=method, times=times)
        attempt = Attempt(partial(publish, store.url_of_proxy, 1))
        error = attempt.error()
        if attempt.exit_code not in {0, TEMPORARY}:
            return crashed(f"exit code {attempt.exit_code} instead of 1: {error}")
        hits = store.proxy.seen(path, action)
        result = _expect(store, {0, 1} if error else {1}, f"{hits} requests; the writer: {error}")
        store.proxy.clear()
        store.expire_lock()
        publish(store.url_of_proxy, 2)
        return result if store.read() == 2 else lost(f"version 2 is not there; {result.detail}")


def _outage(folder: Path, *, seed: int, name: str) -> Result:
    """The store stops answering at a random request of a publication."""
    nth = seeded(seed, "store", name).randrange(1, 12)
    with running_store() as store:
        store.proxy.add("lose request", "/", nth=nth, times=100_000)
        attempt = Attempt(partial(publish, store.url_of_proxy, 1))
        error = attempt.error()
        if attempt.exit_code not in {0, TEMPORARY}:
            return crashed(f"exit code {attempt.exit_code} instead of 1: {error}")
        return _expect(store, {0, 1} if error else {1}, f"from request {nth} on: {error}")


def _expect(store: Store, allowed: set[int], detail: str) -> Result:
    """Read the table without the proxy; it must be one of some versions, and be replaceable."""
    try:
        number = store.read()
        if number not in allowed:
            return lost(f"version {number} instead of {sorted(allowed)}; {detail}")
        store.expire_lock()
        store.publish(20)
        number = store.read()
    except Exception as error:
        return lost(f"{type(error).__name__}: {str(error)[:120]}; {detail}")
    return survived(detail) if number == 20 else lost(f"the next version is {number}; {detail}")


KIND = Kind("store", nothing, faults)

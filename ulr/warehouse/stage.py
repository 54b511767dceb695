"""Run a stage only if its inputs or settings have changed since it last published."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from ulr.engine.failures import reraise_user_errors
from ulr.warehouse.manifest import Manifest
from ulr.warehouse.schema import SCHEMA_VERSION
from ulr.warehouse.tables import Outcome, Warehouse
from ulr.warehouse.transaction import WriteTransaction

Result = TypeVar("Result")


def publish_if_changed(
    warehouse: Warehouse,
    table: str,
    partition: str = "",
    *,
    inputs: Any,
    settings: Mapping[str, Any],
    write: Callable[..., Result],
    not_in_fingerprint: Sequence[str] = (),
    side_tables: Sequence[tuple[str, str]] = (),
    force: bool = False,
    by_content: bool = False,
) -> tuple[Outcome, Result | None]:
    """Publish a partition, unless it was already made from the same inputs and settings.

    A partition with a damaged file is published again.

    write: called with one `WriteTransaction` for the partition and one for each of `side_tables`;
        writes their files and publishes each of them, the one for the partition last.
    inputs, settings: JSON values; recorded in the manifests.
    not_in_fingerprint: settings that do not change the output, as `name` or `section.name`.
    side_tables: further (table, partition) that the same run writes. The stage is skipped only if
        these are unchanged too, so that a run that was killed between two tables is repeated.
    by_content: the inputs are unknown, so the partition is always written, and the fingerprint is
        that of its settings and content: the stages after it are skipped if these are unchanged.

    Returns the outcome and the value that `write` returned (None if skipped).
    """
    fingerprint = fingerprint_of(
        inputs=inputs, settings=settings, not_in_fingerprint=not_in_fingerprint
    )
    targets = [(table, partition), *side_tables]
    published = [warehouse.current(*target) for target in targets]
    manifest = published[0]
    unchanged = all(m is not None and m.fingerprint == fingerprint for m in published)
    damage = "; ".join(text for m in published if m is not None for text in warehouse.damage(m))
    if manifest is not None and unchanged and not (damage or force or by_content):
        return Outcome(manifest, skipped=True), None
    with ExitStack() as stack:
        transactions = [
            stack.enter_context(
                warehouse.writing(
                    *target, fingerprint, inputs=inputs, settings=settings, by_content=by_content
                )
            )
            for target in targets
        ]
        with reraise_user_errors():
            result = write(*transactions)
        manifests = [t.manifest for t in transactions if t.manifest is not None]
    if len(manifests) < len(targets):
        raise RuntimeError(f"{table} {partition}: `write` returned without publishing every table")
    return Outcome(manifests[0], skipped=False, damage=damage if unchanged else ""), result


def publish_changed_partitions(
    warehouse: Warehouse,
    tables: Sequence[str],
    inputs: Mapping[str, Any],
    *,
    write: Callable[[dict[str, list[WriteTransaction]]], None],
) -> dict[str, list[Manifest]]:
    """Publish the partitions of some tables whose inputs have changed, all in one call of `write`.

    inputs: JSON value by partition. write: called with the transactions of the changed partitions,
        in the order of `tables`; writes and publishes each of them.

    Returns the manifests of all partitions, in the order of `tables`.
    """
    fingerprints = {p: fingerprint_of(inputs=value, settings={}) for p, value in inputs.items()}
    published = {p: [warehouse.current(table, p) for table in tables] for p in inputs}
    manifests = {p: [m for m in own if m is not None] for p, own in published.items()}
    changed = [
        p for p, own in published.items()
        if any(m is None or m.fingerprint != fingerprints[p] or warehouse.damage(m) for m in own)
    ]  # fmt: skip
    if not changed:
        return manifests
    with ExitStack() as stack:
        transactions = {
            p: [
                stack.enter_context(warehouse.writing(table, p, fingerprints[p], inputs=inputs[p]))
                for table in tables
            ]
            for p in changed
        }
        with reraise_user_errors():
            write(transactions)
        for p, own in transactions.items():
            manifests[p] = [t.manifest for t in own if t.manifest is not None]
    if any(len(own) < len(tables) for own in manifests.values()):
        raise RuntimeError(f"{tables[0]}: `write` returned without publishing every partition")
    return manifests


def fingerprint_of(
    *, inputs: Any, settings: Mapping[str, Any], not_in_fingerprint: Sequence[str] = ()
) -> str:
    """Return the fingerprint of a stage's output: its inputs, its settings and SCHEMA_VERSION."""
    return fingerprint([SCHEMA_VERSION, inputs, _without(settings, not_in_fingerprint)])


def fingerprint(content: Any) -> str:
    """Return a short hash of a JSON value; equal values have equal hashes."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without(settings: Mapping[str, Any], names: Sequence[str], prefix: str = "") -> dict[str, Any]:
    return {
        name: _without(value, names, f"{prefix}{name}.") if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if prefix + name not in names
    }

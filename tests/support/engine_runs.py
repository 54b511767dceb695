"""Run a stage on several engines, each in a copy of a warehouse, and compare what they publish."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ulr.engine.interface import Engine
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse
from ulr.warehouse.verify import published

# What a record of a model says about the run instead of the model.
_OF_THE_RUN = ("workers", "iterations")


def published_by_all(
    engines: Mapping[str, Engine],
    root: Path,
    run: Callable[[Engine, Warehouse], Any],
    *,
    base: Path | None = None,
) -> dict[str, str]:
    """Run on every engine; return the SHA-256 of each published file, after comparing them.

    base: a warehouse whose copy the runs begin with.
    """
    before = file_hashes(base) if base else {}
    found = {}
    for name, engine in engines.items():
        folder = root / name.replace(" ", "-")
        if base:
            shutil.copytree(base, folder)
        run(engine, Warehouse(str(folder)))
        found[name] = file_hashes(folder)
    first, *others = found
    for other in others:
        assert found[other] == found[first], f"{other} differs from {first}"
    new = {file: sha for file, sha in found[first].items() if file not in before}
    assert new, "nothing was published"
    return new


def file_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every published file, without the folder of its version."""
    hashes = {}
    for where, manifest in published(Storage(str(folder))):
        assert manifest is not None, f"the manifest of {where} is damaged"
        for file in manifest.files:
            content = (folder / where / manifest.folder / file.name).read_bytes()
            if file.name == "record.json":
                record = json.loads(content)
                kept = {name: value for name, value in record.items() if name not in _OF_THE_RUN}
                content = json.dumps(kept, sort_keys=True).encode()
            hashes[f"{where}/{file.name}"] = hashlib.sha256(content).hexdigest()
    return hashes

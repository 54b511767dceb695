"""Compare the published tables of two folders byte by byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ulr.warehouse.storage import Storage
from ulr.warehouse.verify import published


def table_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every published Parquet file, without the folder of its version."""
    hashes = {}
    for where, manifest in published(Storage(str(folder))):
        assert manifest is not None, f"the manifest of {where} is damaged"
        for file in manifest.files:
            if file.name.endswith(".parquet"):
                content = (folder / where / manifest.folder / file.name).read_bytes()
                hashes[f"{where}/{file.name}"] = hashlib.sha256(content).hexdigest()
    return hashes

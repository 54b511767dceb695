"""Compare the tables of two folders byte by byte."""

from __future__ import annotations

import hashlib
from pathlib import Path


def table_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every Parquet file, by its path without the folder of its version."""
    return {
        str(file.relative_to(folder).parent.parent / file.name): hashlib.sha256(
            file.read_bytes()
        ).hexdigest()
        for file in sorted(folder.rglob("*.parquet"))
    }

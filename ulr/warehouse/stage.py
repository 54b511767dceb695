"""TODO."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ulr.version import __version__
from ulr.warehouse.schema import SCHEMA_VERSION


def fingerprint(content: Any) -> str:
    """A short name for a JSON-like value: equal values, equal names."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fingerprint_of(*, inputs: Any, settings: dict[str, Any]) -> str:
    """The fingerprint of a stage's output: what went in, how, and what the columns mean."""
    return fingerprint([SCHEMA_VERSION, __version__, inputs, settings])

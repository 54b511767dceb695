"""Settings and messages without passwords, for logs and reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"
_SECRET_KEY = re.compile(
    r"secret|passw|token|credential|(access|account|api|encryption|private)[._-]?key", re.I
)
_USER = re.compile(r"(?<=://)[^/\s]+(?=@)")
_QUERY = re.compile(r"([?&][^=&\s]*(?:secret|passw|token|key|sig)[^=&\s]*=)[^&\s]+", re.I)


def redact(settings: dict[str, str]) -> dict[str, str]:
    """Return flat settings with secrets hidden: by the setting's name, or inside a URL."""
    return {
        name: HIDDEN if _SECRET_KEY.search(name) else redact_text(value)
        for name, value in settings.items()
    }


def redact_text(value: str) -> str:
    """Return the text with the passwords of its URLs hidden."""
    return _QUERY.sub(rf"\1{HIDDEN}", _USER.sub(HIDDEN, value))


def redact_values(value: Any) -> Any:
    """Return a JSON value with secrets hidden: by the name of a key, or inside a URL."""
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if _SECRET_KEY.search(str(name)) and item else redact_values(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_values(item) for item in value]
    return redact_text(value) if isinstance(value, str) else value

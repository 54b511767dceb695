"""Settings and messages without passwords, for manifests, logs, reports and the registry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

HIDDEN = "***"
T = TypeVar("T")
_NAMES = r"secret|passw|token|credential|(?:access|account|api|encryption|private)[._-]?key"
_SECRET_KEY = re.compile(rf"{_NAMES}|(?:^|[._-])(?:sig|signature|authorization)$", re.I)
# The user and password of a URL. The password may contain "@" and "/"; a port is none.
_USER = re.compile(
    r"(?<=://)(?:[^/\s'\"]+|[^\s@/:'\"]*:(?!\d{1,5}(?:[/\s]|$))[^\s'\"@]+)(?=@)"
)  # fmt: skip
_QUERY = re.compile(r"([?&][^=&\s]*(?:secret|passw|token|key|sig)[^=&\s]*=)[^&\s'\"]+", re.I)
_OPTION = re.compile(rf"([\w.-]*(?:{_NAMES})[\w.-]*=)(?!\*\*\*)[^&;,\s'\"]+", re.I)
_HEADER = re.compile(r"\b((?:Basic|Bearer) )[\w.~+/=-]{8,}")


def redact(value: T) -> T:
    """Return settings, or any content of a JSON file, with secrets hidden.

    A value is hidden by the name of its setting, which may be spread over nested mappings. In
    other texts the passwords of URLs and options are hidden. None stays None.
    """
    redacted: T = _redact(value, "")
    return redacted


def is_secret(name: str, value: object) -> bool:
    """Return whether a setting must not be visible to other users."""
    return bool(_SECRET_KEY.search(name)) or redact_text(str(value)) != str(value)


def redact_text(value: str) -> str:
    """Return the text with the passwords of its URLs, options and HTTP headers hidden."""
    for pattern in (_QUERY, _OPTION, _HEADER):
        value = pattern.sub(rf"\1{HIDDEN}", value)
    return _USER.sub(HIDDEN, value)


def _redact(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _redact(inner, f"{name}.{key}") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_redact(inner, name) for inner in value)
    if value is not None and _SECRET_KEY.search(name):
        return HIDDEN
    return redact_text(value) if isinstance(value, str) else value

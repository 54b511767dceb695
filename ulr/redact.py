"""Settings as others may see them: nothing that opens a door."""

from __future__ import annotations

import re

HIDDEN = "***"
_SECRET_KEY = re.compile(
    r"secret|passw|token|credential|(access|account|api|encryption|private)[._-]?key", re.I
)
_USER = re.compile(r"(?<=://)[^/\s]+(?=@)")
_QUERY = re.compile(r"([?&][^=&\s]*(?:secret|passw|token|key|sig)[^=&\s]*=)[^&\s]+", re.I)


def redact(settings: dict[str, str]) -> dict[str, str]:
    """Flat settings without passwords: by the name of the setting, or inside an address."""
    return {name: HIDDEN if _SECRET_KEY.search(name) else redact_text(value)
            for name, value in settings.items()}  # fmt: skip


def redact_text(value: str) -> str:
    """Words without the passwords of the addresses in them."""
    return _QUERY.sub(rf"\1{HIDDEN}", _USER.sub(HIDDEN, value))

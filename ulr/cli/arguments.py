"""Files that a user asks for: what cannot be written is said before the work is done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ulr.errors import UserError


def check_target(flag: str, path: str | None, kinds: Sequence[str] = ()) -> None:
    """Refuse a file in a folder that is not there, or of a kind that is not among `kinds`."""
    if path is None:
        return
    target = Path(path)
    if not target.parent.is_dir():
        raise UserError(f"{flag} {path}: there is no folder {target.parent}; make it first")
    if target.is_dir():
        raise UserError(f"{flag} {path}: that is a folder; give a file")
    if kinds and target.suffix.lower() not in kinds:
        raise UserError(f"{flag} {path}: expected a name that ends in {', '.join(kinds)}")

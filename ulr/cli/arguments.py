"""Files that a user asks for: what cannot be written is said before the work is done."""

from __future__ import annotations

from pathlib import Path

from ulr.errors import UserError


def check_target(flag: str, path: str | None, ending: str = "") -> None:
    """Raise a UserError for a file in a missing folder, or without the ending."""
    if path is None:
        return
    target = Path(path)
    if not target.parent.is_dir():
        raise UserError(f"{flag} {path}: there is no folder {target.parent}; make it first")
    if target.is_dir():
        raise UserError(f"{flag} {path}: that is a folder; give a file")
    if ending and target.suffix.lower() != ending:
        format_name = ending.lstrip(".").upper()
        raise UserError(
            f"{flag} {path}: the file is written as {format_name}; end its name in {ending}"
        )

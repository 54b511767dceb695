"""A queued submission as a JSON file, with a hash by which damage is detected."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ulr.errors import UserError
from ulr.models.check import read_checked
from ulr.registry import tags
from ulr.registry.submission import Submission

_HASH = "sha256"  # of the other keys
_TYPE = TypeAdapter(Submission)


class DamagedEntry(ValueError):
    """The file is not an entry as it was written; the message says what is wrong."""


def entry_of(submission: Submission) -> dict[str, Any]:
    """Return the content of the file."""
    content = asdict(submission)
    return content | {_HASH: _hash(content)}


def read_entry(content: bytes, fingerprint: str) -> Submission:
    """Return the submission of a file that is named after the fingerprint.

    Entries of earlier versions have no hash; for them, types and model are checked.
    """
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedEntry(f"it is not JSON ({str(error)[:100]})") from None
    if not isinstance(fields, dict):
        raise DamagedEntry(f"it is not a JSON object but {type(fields).__name__}")
    expected = fields.pop(_HASH, None)
    if expected is not None and _hash(fields) != expected:
        raise DamagedEntry("its content does not match its SHA-256")
    try:
        submission = _TYPE.validate_json(json.dumps(fields), strict=True)
        read_checked(submission.model.encode(), "in it")
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DamagedEntry(f"{place}: {first['msg'][:100]}") from None
    except UserError as error:
        raise DamagedEntry(f"the {error}") from None
    _check_names(submission, fingerprint)
    return submission


def _check_names(submission: Submission, fingerprint: str) -> None:
    for name in submission.files:
        if name in ("", "..") or PurePosixPath(name).name != name:
            raise DamagedEntry(f"files: {name[:40]!r} is not the name of a file")
    own = (submission.fingerprint, submission.tags.get(tags.FINGERPRINT))
    if own != (fingerprint, fingerprint):
        raise DamagedEntry(f"its fingerprint is {own[0][:40]!r}, not that of its name")
    for tag in (tags.METHOD, tags.WINDOW):
        if tag not in submission.tags:
            raise DamagedEntry(f"the tag {tag} is missing")


def _hash(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

"""The manifest of a published partition: its files, its origin and its replaced versions."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ulr.errors import UserError
from ulr.redact import redact
from ulr.version import __version__
from ulr.warehouse.schema import SCHEMA_VERSION
from ulr.warehouse.storage import json_text

MANIFEST = "manifest.json"
# 1: files by name only, `previous` instead of `replaced`.
MANIFEST_VERSION = 2


class PublishedFile(NamedTuple):
    """A file of a version. size, sha256: None in manifests of version 1."""

    name: str
    size: int | None
    sha256: str | None

    @property
    def is_data(self) -> bool:
        """Whether the file holds rows or a model; names with '.' or '_' in front do not."""
        return self.name[:1] not in "._"


class Replaced(NamedTuple):
    """The folder of an earlier version, and the time (UTC, ISO 8601) it was replaced."""

    folder: str
    at: str


class DamagedManifest(Exception):
    """The manifest is not one that this or an earlier version has written."""


@dataclass(frozen=True)
class Manifest:
    """The published version of a partition, and the inputs and settings it was made from."""

    table: str
    partition: str
    fingerprint: str
    folder: str
    files: list[PublishedFile] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    inputs: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    replaced: list[Replaced] = field(default_factory=list)
    schema_version: int = SCHEMA_VERSION
    manifest_version: int = MANIFEST_VERSION
    version: str = __version__

    @property
    def content(self) -> str:
        """A hash of the content of all files; the folder's name if the files have no hashes."""
        if any(file.sha256 is None for file in self.files):
            return self.folder
        text = json.dumps([[file.name, file.sha256] for file in self.files])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_bytes(self) -> bytes:
        """Return the content of the manifest's file, without passwords."""
        content = asdict(self)
        content["files"] = [file._asdict() for file in self.files]
        content["replaced"] = [entry._asdict() for entry in self.replaced]
        content["inputs"] = redact(self.inputs)
        content["settings"] = redact(self.settings)
        return json_text(content).encode()


def read_manifest(content: bytes) -> Manifest:
    """Return the manifest in a file; raise DamagedManifest if it cannot be read.

    Raises UserError if a newer version of ulr has written it.
    """
    try:
        fields = json.loads(content)
        version = fields.pop("manifest_version", 1)
        if version > MANIFEST_VERSION:
            raise UserError(
                f"the table {fields['table']} was published by ulr {fields['version']}, which is "
                f"newer than this one ({__version__}); use that version or a later one"
            )
        if version == 1:
            previous = fields.pop("previous", None)
            fields["files"] = [PublishedFile(name, None, None) for name in fields["files"]]
            fields["replaced"] = [Replaced(previous, "")] if previous else []
        else:
            fields["files"] = [PublishedFile(**file) for file in fields["files"]]
            fields["replaced"] = [Replaced(**entry) for entry in fields["replaced"]]
        return Manifest(**fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, UserError):
            raise
        raise DamagedManifest(str(error)) from None

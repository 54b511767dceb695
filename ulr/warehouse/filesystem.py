"""Filesystems by URL, as Arrow opens them."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.fs as pafs

from ulr.errors import UserError
from ulr.redact import redact_text

_SPARK_SCHEMES = {"s3a://": "s3://", "s3n://": "s3://"}  # Spark's names, and Arrow's


class PreconditionFailed(Exception):
    """A file is not in the version that a conditional write expected."""


def arrow_url(url: str) -> str:
    """Return a URL with Arrow's name of the scheme instead of Spark's."""
    for spark_name, arrow_name in _SPARK_SCHEMES.items():
        if url.startswith(spark_name):
            return arrow_name + url[len(spark_name) :]
    return url


def open_filesystem(url: str) -> tuple[pafs.FileSystem, str]:
    """Return the filesystem and path of a URL or of a local path."""
    url = arrow_url(url)
    if "://" not in url:
        return pafs.LocalFileSystem(), os.path.abspath(url)
    try:
        fs, path = pafs.FileSystem.from_uri(url)
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise UserError(
            f"cannot open {redact_text(url)!r}: {error}; use a local path or an Arrow filesystem "
            "URL (file, s3, gs, hdfs, abfs)"
        ) from None
    return fs, path.rstrip("/")

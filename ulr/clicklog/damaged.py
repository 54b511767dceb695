"""Errors of reading a file, as one line that names the file."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pyarrow as pa

from ulr.errors import InvalidData, TemporaryFailure, UserError
from ulr.redact import redact_text

_CHARACTERS = 300
# Words of errors that a filesystem or a network reports: the same bytes may be read later.
_STORE = re.compile(
    r"AWS Error|HTTP|curl|[Tt]ime[d ]?-?out|[Cc]onnection|google::|Azure|HDFS", re.A
)


@contextlib.contextmanager
def naming_file(
    path: str, form: str = "text file", fix: str = "replace it, or remove it"
) -> Iterator[None]:
    """Raise InvalidData with the path for a file whose content cannot be read.

    An error of the filesystem becomes TemporaryFailure.
    """
    try:
        yield
    except UserError:
        raise
    except OSError as error:
        if error.errno is not None or _STORE.search(str(error)):
            raise TemporaryFailure(
                f"cannot read {redact_text(path)}: {_first_sentence(error)}; run again when the file "
                "can be read"
            ) from None
        raise _damaged(path, form, error, fix) from None
    except (pa.ArrowException, ValueError, MemoryError, OverflowError) as error:
        raise _damaged(path, form, error, fix) from None


def _damaged(path: str, form: str, error: BaseException, fix: str) -> InvalidData:
    reason = _first_sentence(error)
    return InvalidData(f"{redact_text(path)} is not a readable {form}: {reason}; {fix}")


def _first_sentence(error: BaseException) -> str:
    sentence = str(error).partition("\n")[0].partition(". ")[0]
    return printable(sentence or type(error).__name__).rstrip(". ")


def printable(text: str) -> str:
    """Return a short text of a file for a message, without characters that a terminal interprets."""
    return "".join(c if c.isprintable() else "?" for c in text[:_CHARACTERS])

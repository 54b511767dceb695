"""`--result URL`: the document of `--json` in a file, for a scheduler that sees no output.

A cluster manager that runs the driver keeps neither its exit code nor its stdout for the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from ulr.cli.terminal import document_text


def result_of(arguments: Sequence[str]) -> str | None:
    """Return the URL in arguments that could not be parsed, None without one."""
    for n, word in enumerate(arguments):
        if word.startswith("--result="):
            return word.partition("=")[2]
        if word == "--result" and n + 1 < len(arguments):
            return arguments[n + 1]
    return None


def failure_document(document: Any, message: str, code: int) -> Any:
    """Return the document of a failed command, with `error` and `exit_code`.

    document: what the command produced before it failed, or None. A list, or a summary that has an
    exit code, is returned as it is.
    """
    if isinstance(document, list) or "exit_code" in (document or {}):
        return document
    return (document or {}) | {"error": message, "exit_code": code}


def clear_result(url: str | None) -> None:
    """Delete the result of an earlier run; raise an error if the place cannot be reached."""
    if url is not None:
        _files().delete_file(url)


def write_result(url: str | None, document: Any) -> None:
    """Write the document in one step."""
    if url is not None:
        _files().write_file(url, document_text(document) + "\n")


def _files() -> ModuleType:
    """Import Arrow's filesystems only if there is a result to write; `ulr --help` needs none."""
    return import_module("ulr.warehouse.storage")

"""Write the SHA-256 hashes of all pinned packages into the lock files.

    python docker/lock.py

Reads the pins NAME==VERSION of requirements.lock and requirements-bench.lock, asks the package
index for the hashes of their files, and writes both again. docker/requirements.lock gets the part
that the image needs: what setup.py requires, with the extras `spark` and `server`, and the build
tools. pip then refuses a file that differs. Uses the index in PIP_INDEX_URL, or pip's default one.
The names of indexes are not written.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pip._internal.models.index import PyPI

ROOT = Path(__file__).resolve().parent.parent
LOCKS = (ROOT / "requirements.lock", ROOT / "requirements-bench.lock")
IMAGE = ROOT / "docker" / "requirements.lock"
IMAGE_COMMENT = "# The pins of requirements.lock that the image needs. Written by docker/lock.py."
BUILD_TOOLS = ("setuptools", "wheel")
EXTRAS = ("spark", "server")
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", re.MULTILINE)
_LINK = re.compile(r'<a href="[^"#]*/([^/"#]+)#sha256=([0-9a-f]{64})"')
# Python 3.11 to 3.14 on Linux (glibc; x86-64, ARM) and macOS.
_INTERPRETER = re.compile(r"-(?:py2\.)?(?:py3|cp3\d+-abi3|cp31[1-4]-(?:cp31[1-4]|none))")
_PLATFORM = re.compile(r"-any\.whl$|manylinux\w*_(?:x86_64|aarch64)|macosx")


def main() -> None:
    """Write the three files."""
    pins = {lock: _PIN.findall(lock.read_text()) for lock in LOCKS}
    with ThreadPoolExecutor(8) as pool:
        wanted = sorted({pin for found in pins.values() for pin in found})
        hashes = dict(zip(wanted, pool.map(lambda pin: file_hashes(*pin), wanted), strict=True))
    for lock, found in pins.items():
        comments = [line for line in lock.read_text().splitlines() if line.startswith("#")]
        lock.write_text(_render(comments, found, hashes))
    image = image_names(_requirements())
    part = [pin for pin in pins[LOCKS[0]] if canonicalize_name(pin[0]) in image]
    IMAGE.write_text(_render([IMAGE_COMMENT], part, hashes))


def file_hashes(name: str, version: str) -> list[str]:
    """Return the hashes of a release's files that this project can install."""
    index = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")
    with urllib.request.urlopen(f"{index}/{canonicalize_name(name)}/", timeout=60) as answer:
        links = _LINK.findall(answer.read().decode())
    files = [(file, digest) for file, digest in links if _of_release(file, name, version)]
    wheels = [
        digest for file, digest in files if _INTERPRETER.search(file) and _PLATFORM.search(file)
    ]
    sources = [digest for file, digest in files if file.endswith(".tar.gz")]
    if not (chosen := wheels or sources):
        sys.exit(f"lock: the index has no file of {name}=={version} for Linux or macOS")
    return sorted(set(chosen))


def _of_release(file: str, name: str, version: str) -> bool:
    """Return whether a file NAME-VERSION... belongs to the release."""
    pattern = re.sub(r"[-_.]+", "[-_.]+", re.escape(name).replace("\\", ""))
    return re.match(rf"{pattern}-{re.escape(version)}(?:-|\.tar\.gz$)", file, re.I) is not None


def image_names(wanted: list[str]) -> set[str]:
    """Return the names of the requirements, their own requirements, and the build tools."""
    names, queue = set(BUILD_TOOLS), [(Requirement(text), "") for text in wanted]
    done = set()
    while queue:
        requirement, extra = queue.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        names.add(name)
        for own in ("", *requirement.extras):
            if (name, own) not in done:
                done.add((name, own))
                queue += [(Requirement(text), own) for text in requires(name) or ()]
    return names


def _requirements() -> list[str]:
    """Return what setup.py requires for the image."""
    call = next(
        node
        for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setup"
    )
    words = {word.arg: word.value for word in call.keywords}
    extras: dict[str, list[str]] = ast.literal_eval(words["extras_require"])
    of_extras = (requirement for extra in EXTRAS for requirement in extras[extra])
    return [*ast.literal_eval(words["install_requires"]), *of_extras]


def _render(
    comments: list[str], pins: list[tuple[str, str]], hashes: dict[tuple[str, str], list[str]]
) -> str:
    entries = (
        " \\\n".join(["==".join(pin), *(f"    --hash=sha256:{h}" for h in hashes[pin])])
        for pin in pins
    )
    return "\n".join([*comments, *entries]) + "\n"


if __name__ == "__main__":
    main()

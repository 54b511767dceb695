"""An interpreter, `ulr` and what it requires, as one archive for `spark-submit --archives`.

    python docker/pack.py dist/ulr-0.1.0-py3-none-any.whl dist/ulr-env.tar.gz

What is installed beside the running interpreter is packed, in the versions installed here. A
virtual environment only points to an interpreter, which every machine would need at the same
path; so the interpreter goes in with its standard library, and finds both from where it is
unpacked. Spark is left out: the cluster has its own. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import marshal
import re
import subprocess
import sys
import sysconfig
import tarfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import MAGIC_NUMBER, source_hash
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
LIBRARY = f"lib/{PYTHON}"
PACKAGES = f"{LIBRARY}/site-packages"
SPARK = {"pyspark", "py4j"}
# Parts of the standard library that nothing imports on a cluster.
UNUSED = {"__pycache__", "ensurepip", "idlelib", "lib2to3", "site-packages", "dist-packages",
          "test", "tkinter", "turtledemo"}  # fmt: skip
# Libraries of the system that wheels take for granted and a bare machine may lack.
SYSTEM = ("libgomp.so.1",)
# Those that the interpreter and its modules are linked with: other Linuxes have other versions.
# OpenSSL stays the machine's own, which its owner keeps patched.
LINKED = re.compile(
    r"^\tlib(?:python|bz2|expat|ffi|lzma|sqlite|z)[\d.]*\.so\S* => (\S+)", re.MULTILINE
)
# Starts the interpreter with what lies beside it, and only that: PYTHONPATH, because Debian's
# own does not look into site-packages.
SHIM = f"""#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH=$here/../lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
PYTHONPATH=$here/../{PACKAGES}${{PYTHONPATH:+:$PYTHONPATH}}
PYTHONNOUSERSITE=1
export LD_LIBRARY_PATH PYTHONPATH PYTHONNOUSERSITE
exec "$here/{PYTHON}" """
Files = Iterator[tuple[str, Path | bytes]]


def required(wheel_requires: Iterable[str]) -> list[Distribution]:
    """The installed distributions that are needed, directly or not, by name."""
    found: dict[str, Distribution] = {}
    waiting = [(Requirement(text), "") for text in wheel_requires]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        marker = requirement.marker
        if name in SPARK or (marker and not marker.evaluate({"extra": extra})):
            continue
        for wanted in ("", *requirement.extras):
            if (key := f"{name}[{wanted}]") in found:
                continue
            found[key] = _installed(requirement)
            waiting += [(Requirement(text), wanted) for text in found[key].requires or ()]
    return sorted(
        {canonicalize_name(d.name): d for d in found.values()}.values(), key=lambda d: d.name
    )


def _installed(requirement: Requirement) -> Distribution:
    try:
        return distribution(requirement.name)
    except PackageNotFoundError:
        sys.exit(f"pack: {requirement} is not installed beside {sys.executable}; run `make dist`")


def interpreter() -> Files:
    """The program, its library if it has one, what starts it, and the standard library."""
    program = Path(sys._base_executable).resolve()
    yield f"bin/{PYTHON}", program
    yield "bin/python3", f'{SHIM}"$@"\n'.encode()
    yield "bin/ulr", f'{SHIM}-m ulr.cli "$@"\n'.encode()
    for path in _libraries(program):
        yield f"lib/{path.name}", path
    standard = Path(sysconfig.get_path("stdlib"))
    for path in standard.rglob("*"):
        parts = path.relative_to(standard).parts
        if path.is_file() and not UNUSED & set(parts) and not parts[0].startswith("config-"):
            yield f"{LIBRARY}/{'/'.join(parts)}", path


def _libraries(program: Path) -> Iterator[Path]:
    """Shared libraries that are not part of every system: LINKED and SYSTEM."""
    modules = (Path(sysconfig.get_path("stdlib")) / "lib-dynload").glob("*.so")
    asked = subprocess.run(["ldd", program, *modules], capture_output=True, text=True, check=True)
    yield from (Path(path) for path in sorted(set(LINKED.findall(asked.stdout))))
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    for name in SYSTEM:
        found = re.search(rf"\t{re.escape(name)} .* => (\S+)", known.stdout)
        if found:
            yield Path(found[1])


def packages(wanted: Iterable[Distribution]) -> Files:
    """The distributions' files, without scripts (they name this machine's paths) and tests."""
    for one in wanted:
        for file in one.files or ():
            parts = set(file.parts)
            if not parts & {"..", "__pycache__", "tests"} and file.name != "RECORD":
                yield f"{PACKAGES}/{file.as_posix()}", Path(str(file.locate()))


def ours(wheel: Path) -> Files:
    """The wheel, unpacked, and beside the interpreter the jobs and the settings to submit."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            yield f"{PACKAGES}/{name}", archive.read(name)
    for folder in ("conf", "jobs"):
        for path in (ROOT / folder).iterdir():
            if path.is_file():
                yield f"{folder}/{path.name}", path


def wheel_requires(wheel: Path) -> list[str]:
    """What the wheel says it needs."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode().split("\n\n")[0].splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist: " in line]


def bytecode(name: str, source: bytes) -> tuple[str, bytes] | None:
    """A module's compiled form, to be believed wherever it is unpacked, whatever the clock says.

    Without it every executor would compile everything anew before its first task. What pip has
    compiled holds this machine's paths; and marshal's later versions tell which strings other
    modules share, so that the bytes would depend on what is imported here.
    """
    try:
        code = marshal.dumps(compile(source, name, "exec", dont_inherit=True, optimize=0), 2)
    except SyntaxError:  # a template, or for another Python
        return None
    unchecked = (1).to_bytes(4, "little")
    folder, _, module = name.rpartition("/")
    inside = f"{folder}/__pycache__/{module[:-3]}.{sys.implementation.cache_tag}.pyc"
    return inside, MAGIC_NUMBER + unchecked + source_hash(source) + code


def write(target: Path, files: Files, level: int) -> int:
    """A .tar.gz, whole or not at all; how many bytes it unpacks to.

    Nothing in it says who packed it, or when. Not a .tar: Spark unpacks those without their
    permissions, and the interpreter would not start.
    """
    size, draft = 0, target.with_name(f".{target.name}")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(draft.open("wb"))
        stream = stack.enter_context(gzip.GzipFile("", "wb", level, file, mtime=0))
        archive = stack.enter_context(tarfile.open(fileobj=stream, mode="w|"))
        for name, content in sorted(dict(files).items()):
            data = content if isinstance(content, bytes) else content.read_bytes()
            _add(archive, name, data)
            size += len(data)
            if name.startswith(LIBRARY) and name.endswith(".py"):
                compiled = bytecode(name, data)
                if compiled:
                    _add(archive, *compiled)
                    size += len(compiled[1])
    draft.replace(target)
    return size


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = len(data), 315532800  # 1980, the oldest that a zip can say
    entry.mode = 0o755 if name.startswith("bin/") or ".so" in name else 0o644
    archive.addfile(entry, io.BytesIO(data))


def main() -> None:
    """Pack, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("target", type=Path, help="a .tar.gz")
    parser.add_argument("--level", type=int, default=6, help="of compression, 0 to 9")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # what compiling others' code has to say of it
    wanted = required(wheel_requires(args.wheel))
    files = chain(interpreter(), packages(wanted), ours(args.wheel))
    size = write(args.target, files, args.level)
    packed = args.target.stat().st_size
    print(
        f"{args.target}: {len(wanted)} packages, {packed / 1e6:,.0f} MB, unpacked {size / 1e6:,.0f}"
    )


if __name__ == "__main__":
    main()

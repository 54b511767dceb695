"""Pack an interpreter, `ulr` and its dependencies into one archive for `spark-submit --archives`.

    python docker/pack.py dist/ulr-0.1.0-py3-none-any.whl dist/environment.tar.gz

The dependencies are those installed in the running environment, in the same versions. A virtual
environment only refers to an interpreter, which would have to be installed at the same path on
every machine. The archive therefore contains the interpreter and its standard library, and works
from any folder. Spark is not included: the cluster provides it. Equal inputs give equal bytes.
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
# Parts of the standard library that no job imports.
UNUSED = {"__pycache__", "ensurepip", "idlelib", "lib2to3", "site-packages", "dist-packages",
          "test", "tkinter", "turtledemo"}  # fmt: skip
# System libraries that wheels expect and a minimal machine may lack.
SYSTEM = ("libgomp.so.1",)
# System libraries that the interpreter and its modules are linked with: versions differ between
# distributions. OpenSSL is not included, so that security updates of the machine apply.
LINKED = re.compile(
    r"^\tlib(?:python|bz2|expat|ffi|lzma|sqlite|z)[\d.]*\.so\S* => (\S+)", re.MULTILINE
)
# Start the interpreter with the packages of the archive only. PYTHONPATH is set because Debian's
# interpreter does not search site-packages.
SHIM = f"""#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH=$here/../lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
PYTHONPATH=$here/../{PACKAGES}${{PYTHONPATH:+:$PYTHONPATH}}
PYTHONNOUSERSITE=1
export LD_LIBRARY_PATH PYTHONPATH PYTHONNOUSERSITE
exec "$here/{PYTHON}" """
Files = Iterator[tuple[str, Path | bytes]]


def resolve(requirements: Iterable[str]) -> list[Distribution]:
    """Return the installed distributions for the requirements and their own, sorted by name."""
    resolved: dict[str, Distribution] = {}
    queue = [(Requirement(text), "") for text in requirements]
    while queue:
        requirement, extra = queue.pop()
        name = canonicalize_name(requirement.name)
        marker = requirement.marker
        if name in SPARK or (marker and not marker.evaluate({"extra": extra})):
            continue
        for wanted_extra in ("", *requirement.extras):
            if (key := f"{name}[{wanted_extra}]") in resolved:
                continue
            resolved[key] = _installed(requirement)
            queue += [(Requirement(text), wanted_extra) for text in resolved[key].requires or ()]
    return sorted(
        {canonicalize_name(d.name): d for d in resolved.values()}.values(), key=lambda d: d.name
    )


def _installed(requirement: Requirement) -> Distribution:
    try:
        return distribution(requirement.name)
    except PackageNotFoundError:
        sys.exit(f"pack: {requirement} is not installed for {sys.executable}; run `make dist`")


def interpreter() -> Files:
    """Yield the interpreter, its shared libraries, the start scripts and the standard library."""
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
    """Yield the shared libraries of LINKED and SYSTEM."""
    modules = (Path(sysconfig.get_path("stdlib")) / "lib-dynload").glob("*.so")
    linked = subprocess.run(["ldd", program, *modules], capture_output=True, text=True, check=True)
    yield from (Path(path) for path in sorted(set(LINKED.findall(linked.stdout))))
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    for name in SYSTEM:
        if match := re.search(rf"\t{re.escape(name)} .* => (\S+)", cache.stdout):
            yield Path(match[1])


def packages(distributions: Iterable[Distribution]) -> Files:
    """Yield the files of the distributions, without tests and without scripts.

    Scripts contain the path of this machine's interpreter.
    """
    for package in distributions:
        for file in package.files or ():
            parts = set(file.parts)
            if not parts & {"..", "__pycache__", "tests"} and file.name != "RECORD":
                yield f"{PACKAGES}/{file.as_posix()}", Path(str(file.locate()))


def project(wheel: Path) -> Files:
    """Yield the files of the wheel, and the folders `jobs` and `conf` to submit from."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            yield f"{PACKAGES}/{name}", archive.read(name)
    for folder in ("conf", "jobs"):
        for path in (ROOT / folder).iterdir():
            if path.is_file():
                yield f"{folder}/{path.name}", path


def wheel_requires(wheel: Path) -> list[str]:
    """Return the requirements in the metadata of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode().split("\n\n")[0].splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist: " in line]


def bytecode(name: str, source: bytes) -> tuple[str, bytes] | None:
    """Return the path and content of a module's .pyc, or None if the source does not compile.

    Without bytecode every executor would compile all modules before its first task. The .pyc is
    marked as unchecked, so it is valid for any modification time. Bytecode compiled by pip is
    not usable, because it contains paths of this machine. Marshal version 2 is used because later
    versions encode which strings are interned, so the bytes would depend on the modules imported
    here.
    """
    try:
        code = marshal.dumps(compile(source, name, "exec", dont_inherit=True, optimize=0), 2)
    except SyntaxError:  # a template, or for another version of Python
        return None
    unchecked = (1).to_bytes(4, "little")
    folder, _, module = name.rpartition("/")
    inside = f"{folder}/__pycache__/{module[:-3]}.{sys.implementation.cache_tag}.pyc"
    return inside, MAGIC_NUMBER + unchecked + source_hash(source) + code


def write(target: Path, files: Files, level: int) -> int:
    """Write a .tar.gz atomically and return its unpacked size in bytes.

    The archive contains no user names and no times. It is compressed because Spark drops the
    permissions of a plain .tar, and the interpreter would not start.
    """
    size, partial = 0, target.with_name(f".{target.name}")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(partial.open("wb"))
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
    partial.replace(target)
    return size


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = len(data), 315532800  # 1980, the earliest time of a zip
    entry.mode = 0o755 if name.startswith("bin/") or ".so" in name else 0o644
    archive.addfile(entry, io.BytesIO(data))


def main() -> None:
    """Write the archive and print its size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("target", type=Path, help="a .tar.gz")
    parser.add_argument("--level", type=int, default=6, help="compression level, 0 to 9")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # syntax warnings of other packages
    distributions = resolve(wheel_requires(args.wheel))
    files = chain(interpreter(), packages(distributions), project(args.wheel))
    size = write(args.target, files, args.level)
    packed = args.target.stat().st_size
    sizes = f"{packed / 1e6:,.0f} MB, unpacked {size / 1e6:,.0f}"
    print(f"{args.target}: {len(distributions)} packages, {sizes}")


if __name__ == "__main__":
    main()

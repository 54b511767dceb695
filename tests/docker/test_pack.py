"""docker/pack.py: equal inputs give equal bytes, and the archive is complete."""

from __future__ import annotations

import marshal
import re
import subprocess
import sys
from pathlib import Path

import pack
import pytest

pytestmark = pytest.mark.all

SOURCE = b"def total(rare_argument):\n    return rare_argument.rare_attribute + 1\n"


def test_bytecode_does_not_depend_on_the_modules_imported_here():
    name = f"{pack.PACKAGES}/one.py"
    before = pack.bytecode(name, SOURCE)
    shared = [sys.intern("rare_" + part) for part in ("argument", "attribute")]
    assert pack.bytecode(name, SOURCE) == before, shared
    inside, content = before
    assert inside == f"{pack.PACKAGES}/__pycache__/one.{sys.implementation.cache_tag}.pyc"
    module: dict = {}
    exec(marshal.loads(content[16:]), module)
    assert module["total"](type("One", (), {"rare_attribute": 2})) == 3


def test_a_file_that_does_not_compile_is_packed_without_bytecode():
    assert pack.bytecode("template.py", b"class {{ name }}: pass") is None


def test_archives_of_two_folders_are_equal_and_do_not_contain_their_paths(tmp_path):
    packed = []
    for folder in ("first", "second"):
        module = tmp_path / folder / "one.py"
        module.parent.mkdir()
        module.write_bytes(SOURCE)
        if folder == "second":  # already compiled, with its path in the bytecode
            subprocess.run([sys.executable, "-m", "compileall", "-q", module], check=True)
        files = iter([(f"{pack.PACKAGES}/one.py", module), ("bin/python3", b"#!/bin/sh")])
        pack.write(module.with_suffix(".tar.gz"), files, 0)
        packed.append(module.with_suffix(".tar.gz").read_bytes())
    assert packed[0] == packed[1]
    assert str(tmp_path).encode() not in packed[0]


def test_the_system_libraries_of_ctypes_and_sqlite_are_packed():
    import _ctypes
    import _sqlite3

    files = [m.__file__ for m in (_ctypes, _sqlite3)]
    linked = subprocess.run(["ldd", *files], capture_output=True, text=True, check=True).stdout
    wanted = set(re.findall(r"(libffi\S+|libsqlite3\S+) =>", linked))
    packed = {path.name for path in pack._libraries(Path(sys._base_executable).resolve())}
    assert wanted
    assert wanted <= packed

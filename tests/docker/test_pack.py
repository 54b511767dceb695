"""docker/pack.py: the same bytes wherever and however often it packs, and nothing left behind."""

from __future__ import annotations

import marshal
import re
import subprocess
import sys
from pathlib import Path

import pack

SOURCE = b"def total(rare_argument):\n    return rare_argument.rare_attribute + 1\n"


def test_bytecode_is_the_same_whatever_else_this_process_has_imported():
    name = f"{pack.PACKAGES}/one.py"
    before = pack.bytecode(name, SOURCE)
    shared = [sys.intern("rare_" + part) for part in ("argument", "attribute")]
    assert pack.bytecode(name, SOURCE) == before, shared
    inside, content = before
    assert inside == f"{pack.PACKAGES}/__pycache__/one.{sys.implementation.cache_tag}.pyc"
    found: dict = {}
    exec(marshal.loads(content[16:]), found)
    assert found["total"](type("One", (), {"rare_attribute": 2})) == 3


def test_what_is_not_python_is_packed_without_bytecode():
    assert pack.bytecode("template.py", b"class {{ name }}: pass") is None


def test_an_archive_is_the_same_from_two_places_and_says_nothing_of_them(tmp_path):
    packed = []
    for place in ("here", "there"):
        module = tmp_path / place / "one.py"
        module.parent.mkdir()
        module.write_bytes(SOURCE)
        if place == "there":  # compiled already, with its path in it
            subprocess.run([sys.executable, "-m", "compileall", "-q", module], check=True)
        files = iter([(f"{pack.PACKAGES}/one.py", module), ("bin/python3", b"#!/bin/sh")])
        pack.write(module.with_suffix(".tar.gz"), files, 0)
        packed.append(module.with_suffix(".tar.gz").read_bytes())
    assert packed[0] == packed[1]
    assert str(tmp_path).encode() not in packed[0]


def test_the_libraries_that_ctypes_and_sqlite_are_linked_with_travel_too():
    import _ctypes
    import _sqlite3

    files = [m.__file__ for m in (_ctypes, _sqlite3)]
    linked = subprocess.run(["ldd", *files], capture_output=True, text=True, check=True).stdout
    wanted = set(re.findall(r"(libffi\S+|libsqlite3\S+) =>", linked))
    there = {path.name for path in pack._libraries(Path(sys._base_executable).resolve())}
    assert wanted
    assert wanted <= there

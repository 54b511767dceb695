"""Compiled code: stored once, served from the package, kept apart by source."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ulr.kernels import jit

ROOT = Path(__file__).parents[2]
CALL = """
from ulr.kernels import jit
{setup}
import numpy as np
from ulr.kernels.order import rank_descending
order = np.empty((2, 3), np.int32)
rank_descending(np.array([1.0, 3.0, 2.0]), 3, order[0], order[1])
assert order[0].tolist() == [1, 2, 0]
print(sum(rank_descending.stats.cache_misses.values()))
"""


def start(cache: Path, setup: str = "") -> subprocess.Popen[str]:
    """Call a kernel in a new process; the package has no stored code unless `setup` says so."""
    setup = f"jit.PACKAGE = {str(cache / 'empty')!r}\n{setup}"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", CALL.format(setup=setup)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def misses(process: subprocess.Popen[str]) -> int:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return int(out)


def test_of_two_processes_that_need_a_kernel_one_compiles_it(tmp_path):
    processes = [start(tmp_path) for _ in range(2)]
    assert sum(misses(process) for process in processes) == 1


def test_a_package_that_cannot_be_written_serves_the_code_stored_in_it(tmp_path):
    package, user = tmp_path / "package", tmp_path / "user"
    assert misses(start(package)) == 1
    (stored,) = package.iterdir()
    assert misses(start(user, f"jit.PACKAGE = {str(stored)!r}")) == 0
    assert misses(start(user)) == 1


def test_a_change_of_the_room_invalidates_the_code(tmp_path):
    assert misses(start(tmp_path)) == 1
    assert misses(start(tmp_path)) == 0
    assert misses(start(tmp_path, "jit._source_stamp = lambda: 'other sources'")) == 1


def test_without_a_writable_folder_the_code_is_stored_in_a_temporary_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(jit._Storage, "_locator_classes", [jit._TemporaryFolder])
    jit._temporary_folder.cache_clear()
    own = tmp_path / f"ulr-kernels-{os.getuid()}"
    assert jit._Cache(jit._sources).cache_path == str(own)
    assert own.stat().st_mode & 0o777 == 0o700
    jit._temporary_folder.cache_clear()
    own.chmod(0o777)  # another user could have written to it
    assert jit._Cache(jit._sources).cache_path != str(own)
    jit._temporary_folder.cache_clear()


def test_a_compilation_that_fails_releases_the_lock():
    @jit.kernel()
    def fails(x):
        return x.nosuch

    with pytest.raises(Exception, match="nosuch"):
        fails(1)
    assert jit._lock.depth == 0
    assert jit._lock._file is None

"""Folders in /tmp: links and folders of other users are not used, nor what they hold executed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ulr.engine import quiet
from ulr.folders import is_trusted, open_private, private_folder
from ulr.kernels import jit

OTHER = 12345
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")


@pytest.fixture
def shared(tmp_path, monkeypatch) -> Path:
    """Make an empty folder the temporary folder."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    return tmp_path


def test_a_private_folder_is_kept_for_the_next_process(shared):
    folder = private_folder("ulr-x")
    assert folder == shared / f"ulr-x-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert private_folder("ulr-x") == folder


def test_a_link_is_not_followed(shared):
    victim = shared / "victim"
    victim.mkdir(mode=0o700)
    (shared / f"ulr-x-{os.getuid()}").symlink_to(victim)
    folder = private_folder("ulr-x")
    assert folder.resolve().parent == shared
    assert folder != victim
    assert folder.lstat().st_mode & 0o777 == 0o700
    (shared / f"ulr-y-{os.getuid()}").symlink_to(shared / "absent")
    assert not private_folder("ulr-y").is_symlink()
    assert not (shared / "absent").exists()


def test_a_folder_that_others_can_write_is_not_used(shared):
    own = shared / f"ulr-x-{os.getuid()}"
    own.mkdir()
    own.chmod(0o777)
    assert private_folder("ulr-x") != own


@as_root
def test_a_folder_of_another_user_is_not_used(shared):
    own = shared / f"ulr-x-{os.getuid()}"
    own.mkdir(mode=0o700)
    os.chown(own, OTHER, OTHER)
    assert private_folder("ulr-x") != own


def test_a_log_is_not_written_through_a_link(shared, monkeypatch):
    monkeypatch.setattr(quiet, "_folder", quiet._folder.__wrapped__)
    victim = shared / "victim"
    victim.mkdir()
    (victim / "old.log").write_text("theirs")
    os.utime(victim / "old.log", (0, 0))
    (shared / f"ulr-logs-{os.getuid()}").symlink_to(victim)
    with quiet.output_to_log("test") as (_, _, path):
        print("a line")
    assert path.read_text() == "a line\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [f.name for f in victim.iterdir()] == ["old.log"]  # neither written nor cleaned up
    link = shared / "link.log"
    link.symlink_to(victim / "old.log")
    with pytest.raises(OSError, match="symbolic links"):
        open_private(link)


def test_compiled_code_is_not_loaded_from_a_folder_that_others_can_write(tmp_path, monkeypatch):
    jit._trusted.cache_clear()
    assert is_trusted(tmp_path)
    tmp_path.chmod(0o777)
    assert not is_trusted(tmp_path)
    inside = tmp_path / "inside"
    inside.mkdir()
    assert not is_trusted(inside)  # it could be renamed and replaced
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    assert not jit._Cache(jit._sources).cache_path.startswith(str(tmp_path))
    tmp_path.chmod(0o755)
    jit._trusted.cache_clear()
    assert jit._Cache(jit._sources).cache_path.startswith(str(tmp_path))


@as_root
def test_compiled_code_is_not_loaded_from_a_folder_of_another_user(tmp_path):
    os.chown(tmp_path, OTHER, OTHER)
    assert not is_trusted(tmp_path)
    assert is_trusted(tmp_path, OTHER)

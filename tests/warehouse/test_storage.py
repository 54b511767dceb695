"""Files are replaced atomically and listed without temporary ones."""

import pytest
from pyarrow._fs import _MockFileSystem

from ulr.errors import UserError
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.storage import Storage


@pytest.mark.parametrize("kind", ["renames", "uploads"])
def test_a_failed_write_leaves_the_old_file_and_no_temporary_file(tmp_path, kind):
    storage = Storage(str(tmp_path))
    if kind == "uploads":  # in memory; a file appears when it is closed, as on an object store
        storage.fs, storage.root = _MockFileSystem(), "bucket"
    storage.write_text("old", "t", "a.json")

    def fail_halfway(stream) -> None:
        stream.write(b"ne")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        storage._replace(storage.path("t", "a.json"), fail_halfway)
    assert storage.read_text("t", "a.json") == "old"
    storage.write_text("new", "t", "a.json")
    assert storage.read_text("t", "a.json") == "new"
    assert [i.base_name for i in storage._infos(("t",), recursive=True)] == ["a.json"]


@pytest.mark.parametrize("kind", ["renames", "uploads"])
def test_a_file_of_chunks_is_replaced_in_one_step(tmp_path, kind):
    storage = Storage(str(tmp_path))
    if kind == "uploads":
        storage.fs, storage.root = _MockFileSystem(), "bucket"
    storage.write_chunks(iter([b"ol", b"d"]), "t", "a.csv")

    def fail_halfway():
        yield b"ne"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        storage.write_chunks(fail_halfway(), "t", "a.csv")
    assert storage.read_text("t", "a.csv") == "old"
    storage.write_chunks((b"%d\n" % n for n in range(1000)), "t", "a.csv")
    assert storage.read_text("t", "a.csv").splitlines() == [str(n) for n in range(1000)]
    assert [i.base_name for i in storage._infos(("t",), recursive=True)] == ["a.csv"]


def test_a_url_of_an_unknown_filesystem_is_refused():
    with pytest.raises(UserError, match="cannot open 'nosuch://x'"):
        open_filesystem("nosuch://x")


def test_files_that_are_not_data_are_not_listed(tmp_path):
    for name in ("a.parquet", "_SUCCESS", ".hidden", "sub/b.parquet", "_tmp/c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [f.path for f in Storage(str(tmp_path)).files()] == ["a.parquet", "sub/b.parquet"]

"""Paths given as a model that are no model files: none of them blocks or fills the memory."""

import os

import pytest

from ulr.errors import UserError
from ulr.models.files import MAX_BYTES
from ulr.models.published import read_model
from ulr.warehouse.tables import Warehouse


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (os.mkfifo, "is not a regular file"),  # opening it would wait for a writer
        (os.mkdir, "is not a regular file"),
        (lambda path: os.symlink("/dev/zero", path), "is not a regular file"),  # has no end
        (lambda path: os.symlink("/dev/tty", path), "is not a regular file|cannot be read"),
        (lambda path: os.symlink(path, path), "expected a method|cannot be read"),
        (lambda path: path.touch(mode=0o600), "the first line is not `tree`"),
    ],
)
def test_a_path_that_is_no_model_file_is_one_clear_error(tmp_path, create, message):
    path = tmp_path / "model.txt"
    create(path)
    with pytest.raises(UserError, match=message) as error:
        read_model(Warehouse(f"{tmp_path}/warehouse"), str(path))
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_file_larger_than_any_model_is_not_read(tmp_path, scheme):
    path = tmp_path / "model.txt"
    with path.open("wb") as file:
        file.truncate(5 << 30)  # no blocks on the disk
    with pytest.raises(UserError, match=f"5,368,709,120 bytes, and at most {MAX_BYTES:,}"):
        read_model(Warehouse(f"{tmp_path}/warehouse"), f"{scheme}{path}")


def test_a_folder_given_by_url_is_one_clear_error(tmp_path):
    (tmp_path / "model.txt").mkdir()
    with pytest.raises(UserError, match="is not a file"):
        read_model(Warehouse(f"{tmp_path}/warehouse"), f"file://{tmp_path}/model.txt")

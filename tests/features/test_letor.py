"""LETOR text is read into rows, and errors name the line."""

import gzip

import numpy as np
import pytest

from ulr.errors import UserError
from ulr.features.letor import read_letor

LETOR = """2 qid:7 1:0.5 3:1.5 # docid = GX-1 inc = 1
0 qid:7 2:-2 #docid = GX-2

1 qid:9 1:1e-3
"""


def test_sparse_commented_and_compressed_lines_are_read(tmp_path):
    path = tmp_path / "fold.txt.gz"
    path.write_bytes(gzip.compress(LETOR.encode()))
    read = read_letor([str(path)])
    assert read.query_ids == ["7", "7", "9"]
    assert read.doc_ids == ["GX-1", "GX-2", "9-1"]
    assert read.labels.tolist() == [2, 0, 1]
    assert read.features.tolist() == [[0.5, 0, 1.5], [0, -2, 0], [np.float32(1e-3), 0, 0]]


@pytest.mark.parametrize(
    "text",
    [
        "1 7 1:2",
        "x qid:1 1:2",
        "1 qid:1 1:y",
        "",
        "1 qid:1 0:2 1:3",
        "1 qid:1 -1:2",
        "1 qid:1 1.5:2",
        "1 qid:1 99999999999:2",
        "1 qid:1 1:2 3",
        "1 qid:1 1 2 3:4",
        "1 qid:1 1:2 2\n1 qid:1 3:",
        "0.5 qid:1 1:2",
        "nan qid:1 1:2",
        "-1 qid:1 1:2",
        "1 qid:1 1:2 # docid = \xe9",
    ],
)
def test_text_that_is_not_letor_raises_one_clear_line(tmp_path, text):
    path = tmp_path / "bad.txt"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UserError) as error:
        read_letor([str(path)])
    assert "\n" not in str(error.value)


def test_the_error_names_file_line_and_text(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text("1 qid:1 1:2\n1 qid:1 0:2\n")
    with pytest.raises(UserError, match=r"bad\.txt, line 2: '1 qid:1 0:2': features are index"):
        read_letor([str(path)])

"""Propensities read from a file."""

import numpy as np
import pyarrow as pa
import pytest

from ulr.errors import UserError
from ulr.examination_file import read_examination
from ulr.schema import truth_examination_schema
from ulr.storage import Storage


def stored(tmp_path, rows):
    table = pa.Table.from_pylist(rows, schema=truth_examination_schema)
    Storage(f"{tmp_path}").write_table(table, "examination.parquet")
    return f"{tmp_path}/examination.parquet"


def rows_of(segment, theta, both, affine=True):
    rows = [
        {"segment": segment, "k": k, "l": k, "psi": t, "alpha": t / 2 if affine else None,
         "beta": 0.1 if affine else None}
        for k, t in enumerate(theta, start=1)
    ]  # fmt: skip
    return [*rows, {"segment": segment, "k": 1, "l": 2, "psi": both, "alpha": None, "beta": None}]


def test_theta_is_the_diagonal_and_psi_is_symmetric(tmp_path):
    pooled, segments = read_examination(stored(tmp_path, rows_of(None, [1.0, 0.5], 0.4)))
    assert segments == {}
    np.testing.assert_array_equal(pooled.theta, [1.0, 0.5])
    np.testing.assert_array_equal(pooled.psi, [[1.0, 0.4], [0.4, 0.5]])
    np.testing.assert_array_equal(pooled.alpha, [0.5, 0.25])
    np.testing.assert_array_equal(pooled.beta, [0.1, 0.1])


def test_segments_without_a_pooled_curve_are_averaged(tmp_path):
    rows = rows_of("a", [1.0, 0.5], 0.5) + rows_of("b", [1.0, 0.3], 0.1, affine=False)
    pooled, segments = read_examination(stored(tmp_path, rows))
    assert set(segments) == {"a", "b"}
    assert segments["b"].alpha is None
    assert pooled.alpha is None
    assert pooled.theta[1] == pytest.approx((0.5 + 0.3) / 2)
    assert pooled.psi[0, 1] == pytest.approx((0.5 + 0.1) / 2)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(UserError, match="no propensities at"):
        read_examination(f"{tmp_path}/nothing.parquet")
    with pytest.raises(UserError, match=r"no psi for positions \(1, 2\)"):
        read_examination(stored(tmp_path, rows_of(None, [1.0, 0.5], 0.4)[:2]))
    with pytest.raises(UserError, match="no rows"):
        read_examination(stored(tmp_path, []))

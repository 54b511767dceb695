from __future__ import annotations

import ctypes

import lightgbm as lgb
import numpy as np
import pytest

from ulr.errors import UserError
from ulr.kernels.byte_buffer import copy_bytes
from ulr.training.bins import SAMPLE_ROWS, BinnedRows, _serialize, in_sample, make_bins

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 4)).astype(np.float32)
Y = X[:, 0] - X[:, 1] ** 2


def test_rows_pushed_in_batches_get_the_bins_of_rows_pushed_at_once():
    settings = {"verbose": -1, "num_threads": 1}
    bins = make_bins(X, settings)
    at_once, batches = (BinnedRows(bins, 500) for _ in range(2))
    at_once.push(X)
    for start in range(0, 500, 77):
        batches.push(X[start : start + 77])
    settings |= {"objective": "none", "force_col_wise": True}
    texts = []
    for rows in (at_once, batches):
        booster = lgb.Booster(settings, rows.finish())
        booster.update(fobj=lambda scores, _: (scores - Y, np.ones(500)))
        texts.append(booster.model_to_string())
    assert texts[0] == texts[1]


def test_the_sample_does_not_depend_on_the_order_of_queries(monkeypatch):
    monkeypatch.setattr("ulr.training.bins.SAMPLE_ROWS", 300)
    keys = RNG.integers(0, 2**63, 200).astype(np.uint64)
    sizes = RNG.integers(1, 20, 200)
    total = int(sizes.sum())
    inside = in_sample(keys, sizes, total)
    order = RNG.permutation(200)
    moved = in_sample(keys[order], sizes[order], total)
    by_query = np.split(inside, np.cumsum(sizes)[:-1])
    np.testing.assert_array_equal(np.concatenate([by_query[q] for q in order]), moved)
    assert 200 < inside.sum() < 400
    assert in_sample(keys, sizes, 300).all()
    assert SAMPLE_ROWS == 200_000


def test_there_must_be_as_many_names_as_features():
    with pytest.raises(UserError, match=rf"has 2 names, but its rows have {X.shape[1]} features"):
        make_bins(X, {}, ["a", "b"])


def serialize_byte_by_byte(dataset):
    buffer, size, value = ctypes.c_void_p(), ctypes.c_int32(), ctypes.c_uint8()
    lgb.basic._LIB.LGBM_DatasetSerializeReferenceToBinary(
        dataset._handle, ctypes.byref(buffer), ctypes.byref(size)
    )
    content = bytearray()
    for index in range(size.value):
        lgb.basic._LIB.LGBM_ByteBufferGetAt(buffer, ctypes.c_int32(index), ctypes.byref(value))
        content.append(value.value)
    lgb.basic._LIB.LGBM_ByteBufferFree(buffer)
    return bytes(content)


@pytest.mark.parametrize("width", [1, 4])
def test_serialised_bins_are_the_bytes_of_lightgbms_buffer(width):
    dataset = lgb.Dataset(X[:, :width], Y, params={"verbose": -1}).construct()
    assert _serialize(dataset) == serialize_byte_by_byte(dataset)


def test_copying_a_buffer_ends_at_the_first_error():
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_uint8))
    def get(_, index, target):
        target[0] = 3 * index
        return 0 if index < 5 else -1

    target = np.zeros(8, np.uint8)
    address = ctypes.cast(get, ctypes.c_void_p).value
    assert copy_bytes(address, 1, target.ctypes.data, 8) == 5
    assert target[:5].tolist() == [0, 3, 6, 9, 12]
    assert copy_bytes(address, 1, target.ctypes.data, 4) == 4

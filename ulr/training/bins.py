"""One set of bins for all workers, and datasets filled batch by batch with them.

The driver makes bins from a sample; every worker builds its dataset from their serialised form,
so a value falls into the same bin wherever it is. Rows are binned as they arrive: no worker holds
its raw matrix.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import lightgbm as lgb
import numpy as np
from lightgbm.basic import _LIB, _param_dict_to_str, _safe_call

from ulr.errors import UserError
from ulr.kernels.hashing import GOLDEN, splitmix64
from ulr.kernels.layout import Ragged

SAMPLE_ROWS = 200_000  # LightGBM's own default for finding bins


def in_sample(keys: np.ndarray, sizes: np.ndarray, total: int) -> np.ndarray:
    """Whether each row of some queries is in the sample, of about SAMPLE_ROWS out of `total`.

    keys: a hash of each query's name; sizes: its rows. Nothing else decides, so the sample is
    the same however the queries lie.
    """
    if total <= SAMPLE_ROWS:
        return np.ones(int(sizes.sum()), bool)
    place = Ragged.from_lengths(sizes).within().astype(np.uint64)
    drawn = splitmix64(np.repeat(keys, sizes) + place * GOLDEN)
    return drawn < np.uint64(int(SAMPLE_ROWS / total * 2**64))


def make_reference(
    sample: np.ndarray, parameters: Mapping[str, Any], names: Sequence[str] = ()
) -> bytes:
    """The bins of a sample (float32, rows x features), and the features' names if they have any,
    as bytes to be broadcast."""
    if sample.ndim != 2 or not sample.size:
        raise UserError(f"a sample of shape {sample.shape} has no features to make bins of")
    if names and len(names) != sample.shape[1]:
        raise UserError(
            f"the features table names {len(names)} features and its rows have {sample.shape[1]}; "
            "write its metadata anew, or leave it out"
        )
    # All rows of the sample count, and none of its features is dropped for being rare here.
    settings = {**parameters, "bin_construct_sample_cnt": len(sample), "feature_pre_filter": False}
    label, own = np.zeros(len(sample), np.float32), list(names) or "auto"
    dataset = lgb.Dataset(sample, label, params=settings, feature_name=own).construct()
    buffer, size = ctypes.c_void_p(), ctypes.c_int32()
    _safe_call(
        _LIB.LGBM_DatasetSerializeReferenceToBinary(
            dataset._handle, ctypes.byref(buffer), ctypes.byref(size)
        )
    )
    content = bytearray(size.value)
    value = ctypes.c_uint8()
    try:
        for at in range(size.value):
            _safe_call(_LIB.LGBM_ByteBufferGetAt(buffer, ctypes.c_int32(at), ctypes.byref(value)))
            content[at] = value.value
    finally:
        _safe_call(_LIB.LGBM_ByteBufferFree(buffer))
    return bytes(content)


class BinnedRows:
    """A dataset of known size that takes its rows in pieces."""

    def __init__(
        self, reference: bytes, rows: int, width: int, parameters: Mapping[str, Any]
    ) -> None:
        self.rows, self.width, self._filled = rows, width, 0
        self._handle = ctypes.c_void_p()
        _safe_call(
            _LIB.LGBM_DatasetCreateFromSerializedReference(
                ctypes.c_char_p(reference),
                ctypes.c_int32(len(reference)),
                ctypes.c_int64(rows),
                ctypes.c_int32(0),  # 1 would add an initial score of zero
                ctypes.c_char_p(_param_dict_to_str(dict(parameters)).encode()),
                ctypes.byref(self._handle),
            )
        )

    def push(self, values: np.ndarray) -> None:
        """More rows, as float32 values one row after the other; they are binned and not kept."""
        count = values.size // self.width
        if count * self.width != values.size or self._filled + count > self.rows:
            raise UserError(
                f"{values.size} feature values after {self._filled} rows do not fit a dataset of "
                f"{self.rows} rows with {self.width} features; features must have one length"
            )
        if not count:
            return
        values = np.ascontiguousarray(values, np.float32)
        _safe_call(
            _LIB.LGBM_DatasetPushRows(
                self._handle,
                values.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_int(0),  # float32
                ctypes.c_int32(count),
                ctypes.c_int32(self.width),
                ctypes.c_int32(self._filled),
            )
        )
        self._filled += count

    def finish(self) -> lgb.Dataset:
        """The dataset, once all rows are there."""
        if self._filled != self.rows:
            raise UserError(f"{self._filled} rows came where {self.rows} were rows_per_rank")
        dataset = lgb.Dataset(None, params={})
        dataset._handle = self._handle
        dataset.set_label(np.zeros(self.rows, np.float32))  # the objective knows the pairs
        return dataset

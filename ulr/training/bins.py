"""Feature bins that all ranks share, and datasets that are binned batch by batch.

The bins are computed from a sample of rows. Every rank builds its dataset from their serialised
form, so a value falls into the same bin on every rank. Rows are binned as they arrive: no rank
keeps its raw feature matrix in memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
from lightgbm.basic import _LIB, _param_dict_to_str, _safe_call

from ulr.errors import InvalidData, TemporaryFailure
from ulr.kernels.byte_buffer import copy_bytes
from ulr.kernels.hashing import GOLDEN, splitmix64
from ulr.kernels.layout import Ragged

SAMPLE_ROWS = 200_000  # LightGBM's default for bin_construct_sample_cnt


@dataclass(frozen=True)
class Bins:
    """Serialised bins (`reference`) of `width` features; parameters: those of LightGBM."""

    reference: bytes
    width: int
    parameters: Mapping[str, Any]


def in_sample(keys: np.ndarray, sizes: np.ndarray, total: int) -> np.ndarray:
    """Return whether each row is in the sample of about SAMPLE_ROWS out of `total` rows.

    keys: uint64, a hash of each query's name; sizes: rows of each query. The sample depends on
    the arguments only, not on the distribution of the queries over files or ranks.
    """
    if total <= SAMPLE_ROWS:
        return np.ones(int(sizes.sum()), bool)
    index = Ragged.from_lengths(sizes).within().astype(np.uint64)
    drawn = splitmix64(np.repeat(keys, sizes) + index * GOLDEN)
    return drawn < np.uint64(int(SAMPLE_ROWS / total * 2**64))


def check_names(names: Sequence[str], width: int) -> None:
    """Raise unless there are no names, or one for each feature."""
    if names and len(names) != width:
        raise InvalidData(
            f"the metadata of the features table has {len(names)} names, but its rows have "
            f"{width} features; correct the names or remove them"
        )


def make_bins(sample: np.ndarray, parameters: Mapping[str, Any], names: Sequence[str] = ()) -> Bins:
    """Return the bins of a sample (float32, rows x features). names: of the features, if any."""
    if sample.ndim != 2 or not sample.size:
        raise InvalidData(f"cannot compute bins from an empty sample (shape {sample.shape})")
    check_names(names, sample.shape[1])
    # Use all rows of the sample, and do not drop features that are rare in the sample.
    settings = {**parameters, "bin_construct_sample_cnt": len(sample), "feature_pre_filter": False}
    dataset = lgb.Dataset(
        sample,
        np.zeros(len(sample), np.float32),
        params=settings,
        feature_name=list(names) if names else "auto",
    )
    return Bins(_serialize(dataset.construct()), sample.shape[1], parameters)


def _serialize(dataset: lgb.Dataset) -> bytes:
    buffer, size = ctypes.c_void_p(), ctypes.c_int32()
    _safe_call(
        _LIB.LGBM_DatasetSerializeReferenceToBinary(
            dataset._handle, ctypes.byref(buffer), ctypes.byref(size)
        )
    )
    content = np.empty(size.value, np.uint8)
    getter = ctypes.cast(_LIB.LGBM_ByteBufferGetAt, ctypes.c_void_p)
    addresses = getter.value or 0, buffer.value or 0, content.ctypes.data
    try:
        copied = copy_bytes(*addresses, content.size)
        _safe_call(0 if copied == content.size else -1)
    finally:
        _safe_call(_LIB.LGBM_ByteBufferFree(buffer))
    return content.tobytes()


class BinnedRows:
    """A dataset of a known number of rows, which are added in batches."""

    def __init__(self, bins: Bins, rows: int) -> None:
        self.rows, self._filled = rows, 0
        self._handle = ctypes.c_void_p()
        _safe_call(
            _LIB.LGBM_DatasetCreateFromSerializedReference(
                ctypes.c_char_p(bins.reference),
                ctypes.c_int32(len(bins.reference)),
                ctypes.c_int64(rows),
                ctypes.c_int32(0),  # 1 would add an initial score of zero
                ctypes.c_char_p(_param_dict_to_str(dict(bins.parameters)).encode()),
                ctypes.byref(self._handle),
            )
        )

    def push(self, values: np.ndarray) -> None:
        """Bin more rows (float32, rows x features). The values are not kept."""
        count, width = values.shape
        if self._filled + count > self.rows:
            raise self._unexpected(self._filled + count)
        if not count:
            return
        values = np.ascontiguousarray(values, np.float32)
        _safe_call(
            _LIB.LGBM_DatasetPushRows(
                self._handle,
                values.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_int(0),  # float32
                ctypes.c_int32(count),
                ctypes.c_int32(width),
                ctypes.c_int32(self._filled),
            )
        )
        self._filled += count

    def finish(self) -> lgb.Dataset:
        """Return the dataset; all rows must have been added."""
        if self._filled != self.rows:
            raise self._unexpected(self._filled)
        dataset = lgb.Dataset(None, params={})
        dataset._handle = self._handle
        dataset.set_label(np.zeros(self.rows, np.float32))  # the objective reads pairs, not labels
        return dataset

    def _unexpected(self, rows: int) -> TemporaryFailure:
        return TemporaryFailure(
            f"received {rows} rows, expected {self.rows}; "
            "the pairs table changed while it was read, run again"
        )

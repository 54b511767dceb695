"""Trained models by name: a method's model in the warehouse, or a LightGBM text file."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ulr.errors import UserError
from ulr.models.check import read_checked
from ulr.models.files import read_model_file
from ulr.pairs.weights import METHOD_NAMES
from ulr.warehouse.manifest import Manifest
from ulr.warehouse.stage import fingerprint
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse, partition_name

MODEL, RECORD = "model.txt", "record.json"


@dataclass(frozen=True)
class TrainedOn:
    """The dates a model was trained on, and the fraction of queries held out; None if unknown."""

    name: str
    dates: frozenset[dt.date] | None = None
    test_fraction: float | None = None

    def check_dates(self, dates: Sequence[dt.date]) -> None:
        """Raise if the model was trained on one of the held-out dates."""
        overlap = sorted((self.dates or frozenset()) & set(dates))
        if overlap:
            raise UserError(
                f"model {self.name} was trained on {overlap[0]}, which evaluate.holdout=time holds "
                "out; evaluate on dates outside its window, or use evaluate.holdout=query"
            )

    def check_queries(self, test_fraction: float) -> None:
        """Raise if the model was trained on some of the held-out queries.

        The queries held out at a smaller fraction are also held out at a larger one.
        """
        if self.test_fraction is not None and self.test_fraction < test_fraction:
            raise UserError(
                f"model {self.name} was trained with pairs.test_fraction={self.test_fraction:g}, "
                f"so {test_fraction:g} would hold out queries it was trained on; run `ulr pairs` "
                f"and `ulr train` again, or set pairs.test_fraction={self.test_fraction:g}"
            )


def model_manifest(warehouse: Warehouse, method: str) -> Manifest:
    """Return the manifest of a method's published model."""
    manifest = warehouse.current("models", partition_name(method))
    if manifest is None:
        names = ", ".join(n.removeprefix("method=") for n in warehouse.partitions("models"))
        hint = f"it has {names}" if names else "run `ulr train` first"
        raise UserError(f"the warehouse has no model of method {method}; {hint}")
    return manifest


def read_model(warehouse: Warehouse, name: str) -> str:
    """Return the LightGBM text of a method's model, or of a file."""
    if name in METHOD_NAMES:
        content = warehouse.read_file(model_manifest(warehouse, name), MODEL)
        return read_checked(content, name)
    if not name.endswith(".txt") or not Storage(name).exists():
        raise UserError(
            f"--model {name}: expected a method ({', '.join(METHOD_NAMES)}) or a LightGBM text "
            "file (.txt)"
        )
    return read_checked(read_model_file(name, name), name)


def read_record(warehouse: Warehouse, method: str) -> dict[str, Any]:
    """Return the training record of a model: validation history, biases, failures."""
    record: dict[str, Any] = json.loads(
        warehouse.read_file(model_manifest(warehouse, method), RECORD)
    )
    return record


def pairs_of_model(warehouse: Warehouse, method: str) -> Manifest | None:
    """Return the manifest of the pairs a model was trained on; None if they were replaced."""
    pairs = warehouse.current("pairs", partition_name(method))
    same = pairs and pairs.fingerprint == model_manifest(warehouse, method).inputs["pairs"]
    return pairs if same else None


def weight_health(warehouse: Warehouse, method: str) -> list[dict[str, Any]]:
    """Return position, name and value of every metric of a method's pair weights."""
    partition = f"stage=pairs-{partition_name(method)}"
    if warehouse.current("metrics", partition) is None:
        return []
    return warehouse.read("metrics", partition).select(["position", "name", "value"]).to_pylist()


def trained_on(warehouse: Warehouse, name: str) -> TrainedOn:
    """Return the training dates and held-out fraction of a method's model; None for a file."""
    pairs = pairs_of_model(warehouse, name) if name in METHOD_NAMES else None
    if pairs is None:
        return TrainedOn(name)
    days = (day.removeprefix("dt=") for day in pairs.inputs["groups"])
    dates = frozenset(dt.date.fromisoformat(day) for day in days)
    return TrainedOn(name, dates, pairs.settings.get("test_fraction"))


def evaluation_name(name: str) -> str:
    """Return the name of a model in the partitions of the table `metrics`."""
    return partition_name(name) if name in METHOD_NAMES else f"file={fingerprint(name)}"

"""Trained models by name: a method's in the warehouse, or a LightGBM text file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ulr.errors import UserError
from ulr.pairs.weights import METHOD_NAMES
from ulr.warehouse.stage import fingerprint
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Manifest, Warehouse, partition_name

MODEL, RECORD = "model.txt", "record.json"


@dataclass(frozen=True)
class TrainedOn:
    """The clicks that a model has seen: their dates, and the share of queries that was kept from
    it; None where nothing tells."""

    name: str
    dates: frozenset[dt.date] | None = None
    test_fraction: float | None = None

    def refuse_dates(self, dates: Sequence[dt.date]) -> None:
        """Held-out dates must be others."""
        both = sorted((self.dates or frozenset()) & set(dates))
        if both:
            raise UserError(
                f"model {self.name} was trained on {both[0]}, which evaluate.holdout=time asks to "
                "judge it by; give dates after its window, or use evaluate.holdout=query"
            )

    def refuse_queries(self, share: float) -> None:
        """Of a larger share it has seen some; a smaller one is part of what it has not."""
        if self.test_fraction is not None and self.test_fraction < share:
            raise UserError(
                f"model {self.name} was trained with pairs.test_fraction={self.test_fraction:g}, so it "
                f"has seen queries that {share:g} would judge it by; make its pairs and train it "
                "again, or judge with that share"
            )


def model_manifest(warehouse: Warehouse, method: str) -> Manifest:
    """What is published of a method's model."""
    found = warehouse.current("models", partition_name(method))
    if found is None:
        there = ", ".join(n.removeprefix("method=") for n in warehouse.partitions("models"))
        hint = f"there is {there}" if there else "run `ulr train` first"
        raise UserError(f"the warehouse has no model of method {method}; {hint}")
    return found


def read_model(warehouse: Warehouse, name: str) -> str:
    """The LightGBM text of a method's model, or of a file."""
    if name in METHOD_NAMES:
        manifest = model_manifest(warehouse, name)
        where = ("models", partition_name(name), manifest.folder, MODEL)
        return warehouse.storage.read_text(*where)
    folder, _, file = name.rpartition("/")
    storage = Storage(folder or ".")
    if not file.endswith(".txt") or not storage.exists(file):
        raise UserError(
            f"--model {name}: expected a method ({', '.join(METHOD_NAMES)}) or a LightGBM text "
            "file (.txt)"
        )
    return storage.read_text(file)


def read_record(warehouse: Warehouse, method: str) -> dict[str, Any]:
    """What training kept beside the model."""
    manifest = model_manifest(warehouse, method)
    where = ("models", partition_name(method), manifest.folder, RECORD)
    return warehouse.storage.read_json(*where) or {}


def pairs_of_model(warehouse: Warehouse, method: str) -> Manifest | None:
    """The pairs a model was trained on, if they are still those that are published."""
    pairs = warehouse.current("pairs", partition_name(method))
    same = pairs and pairs.fingerprint == model_manifest(warehouse, method).inputs["pairs"]
    return pairs if same else None


def trained_on(warehouse: Warehouse, name: str) -> TrainedOn:
    """The window and the queries behind a method's model."""
    pairs = pairs_of_model(warehouse, name) if name in METHOD_NAMES else None
    if pairs is None:
        return TrainedOn(name)
    days = (day.removeprefix("dt=") for day in pairs.inputs["groups"])
    dates = frozenset(dt.date.fromisoformat(day) for day in days)
    return TrainedOn(name, dates, pairs.settings.get("test_fraction"))


def evaluation_name(name: str) -> str:
    """A model's folder in `metrics`."""
    return partition_name(name) if name in METHOD_NAMES else f"file={fingerprint(name)}"

"""A warehouse on top of another: some tables are read from the base, the rest are stored here.

A re-run with other settings must not replace the tables of the nightly model, and need not read
the log again: it reads the daily groups and tallies from the base and writes all other tables to a
folder of the base. A variant that differs in training only also reads the re-run's pairs.
"""

from __future__ import annotations

from ulr.errors import UserError
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

# The daily tables: any settings share them.
GROUPS = ("groups", "logged_features", "swap_counts", "swap_documents")
PAIRS = (
    *GROUPS,
    "propensities",
    "joint_propensities",
    "level_propensities",
    "diagnostics",
    "pairs",
)
_HEALTH = "stage=pairs-"  # partitions of `metrics` that belong to pairs


class OverlayWarehouse(Warehouse):
    """Tables under a folder of the warehouse `base`; those in `shared` are read from `base`."""

    def __init__(self, base: Warehouse, *folder: str, shared: tuple[str, ...] = GROUPS) -> None:
        super().__init__(base.storage.child(*folder), keep_days=base.keep_days)
        self.base, self.shared = base, shared

    def owns(self, table: str, partition: str = "") -> bool:
        health = table == "metrics" and partition.startswith(_HEALTH) and "pairs" in self.shared
        return table not in self.shared and not health

    def layers(self) -> list[Warehouse]:
        return [self, *self.base.layers()]

    def storage_of(self, table: str, partition: str = "") -> Storage:
        if self.owns(table, partition):
            return self.storage
        return self.base.storage_of(table, partition)


def check_name(option: str, name: str) -> str:
    """Return the name of a re-run or a variant; raise UserError if it cannot name a folder."""
    if not name or not all(c.isalnum() or c in "-_." for c in name) or name.startswith("."):
        raise UserError(f"{option} {name}: expected letters, digits, '-', '_' and '.' in its name")
    return name

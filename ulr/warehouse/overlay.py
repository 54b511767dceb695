"""A warehouse beside a warehouse: some tables are the other's, to be read only.

A re-run with other settings must not replace what tonight's model is made from, and must not read
the log again: it takes the daily groups as they are and writes everything else to its own folder.
A variant that only trains otherwise takes the re-run's pairs as well.
"""

from __future__ import annotations

from ulr.errors import UserError
from ulr.warehouse.tables import Manifest, Warehouse

GROUPS = ("groups",)
PAIRS = (*GROUPS, "propensities", "joint_propensities", "diagnostics", "pairs")
_HEALTH = "stage=pairs-"  # partitions of `metrics` that belong to pairs


class OverlayWarehouse(Warehouse):
    """Tables under FOLDER of another warehouse; those in `shared` are that other's."""

    def __init__(self, beside: Warehouse, *folder: str, shared: tuple[str, ...] = GROUPS) -> None:
        super().__init__(beside.storage.child(*folder))
        self.beside, self.shared = beside, shared

    def current(self, table: str, partition: str = "") -> Manifest | None:
        """What is published, or None."""
        if self.owns(table, partition):
            return super().current(table, partition)
        return self.beside.current(table, partition)

    def partitions(self, table: str) -> list[str]:
        """The published partitions, sorted."""
        return super().partitions(table) if self.owns(table) else self.beside.partitions(table)

    def files(self, table: str, partition: str = "") -> list[str]:
        """The published files, as the filesystem names them."""
        if self.owns(table, partition):
            return super().files(table, partition)
        return self.beside.files(table, partition)

    def owns(self, table: str, partition: str = "") -> bool:
        """Whether it is written here."""
        health = table == "metrics" and partition.startswith(_HEALTH) and "pairs" in self.shared
        return table not in self.shared and not health


def check_name(option: str, name: str) -> str:
    """The name of a re-run or of a variant is a folder."""
    if not name or not all(c.isalnum() or c in "-_." for c in name) or name.startswith("."):
        raise UserError(f"{option} {name}: expected letters, digits, '-', '_' and '.' in its name")
    return name

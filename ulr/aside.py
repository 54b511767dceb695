"""A warehouse beside the warehouse: its own tables, the other's groups.

A re-run with other settings must not replace what tonight's model is made from, and must not read
the log again: it takes the daily groups as they are and writes everything else to its own folder.
"""

from __future__ import annotations

from ulr.errors import UserError
from ulr.warehouse import Manifest, Warehouse

SHARED = "groups"


class Aside(Warehouse):
    """Tables under ROOT/reruns/NAME; `groups` are those of ROOT, to be read only."""

    def __init__(self, root: str, name: str) -> None:
        self.shared = Warehouse(root)
        super().__init__(self.shared.storage.child("reruns", name))

    def current(self, table: str, partition: str = "") -> Manifest | None:
        """What is published, or None."""
        if table == SHARED:
            return self.shared.current(table, partition)
        return super().current(table, partition)

    def partitions(self, table: str) -> list[str]:
        """The published partitions, sorted."""
        return self.shared.partitions(table) if table == SHARED else super().partitions(table)

    def files(self, table: str, partition: str = "") -> list[str]:
        """The published files, as the filesystem names them."""
        if table == SHARED:
            return self.shared.files(table, partition)
        return super().files(table, partition)


def check_name(name: str) -> str:
    """A re-run's name is a folder."""
    if not name or not all(c.isalnum() or c in "-_." for c in name) or name.startswith("."):
        raise UserError(f"--name {name}: expected letters, digits, '-', '_' and '.'")
    return name

"""The settings and versions of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ulr.report.blocks import Code, Table
from ulr.report.facts import Facts, by_method, require


def context(facts: Facts) -> dict[str, Any]:
    """Return the changed settings, those of the variants, all settings, and versions."""
    settings = require(facts, "settings", "settings")
    changed = {name: settings[name] for name in facts.changed if name in settings}
    variants = [[model, *row] for model, values in by_method(facts, facts.variants).items()
                for row in _rows(values)]  # fmt: skip
    return {
        "changed": Table("Settings that differ from conf/base.yaml", ["setting", "value"],
                         _rows(changed)),
        "variants": Table("Settings of the variants", ["model", "setting", "value"], variants),
        "settings": Table("Settings", ["setting", "value"], _rows(settings)),
        "versions": Table("Versions", ["component", "version"], _rows(facts.versions)),
    }  # fmt: skip


def _rows(values: Mapping[str, str]) -> list[list[Code]]:
    return [[Code(name), Code(value)] for name, value in values.items()]

"""The settings and versions that made the run."""

from __future__ import annotations

from ulr.report.facts import Facts, by_method, part
from ulr.report.html import Cell, Html, breakable, folded, join, paragraph, table


def render(facts: Facts) -> Html:
    """What differs from the defaults in sight, everything behind a line."""
    settings = part(facts, "settings", "settings")
    changed = [name for name in facts.changed if name in settings]
    rows = _rows({name: settings[name] for name in changed})
    told = (
        table(["setting", "value"], rows, "Settings that differ from conf/base.yaml")
        if changed
        else paragraph("All settings are the defaults of conf/base.yaml.")
    )
    versions = _rows(facts.versions)
    return join(
        told,
        _variants(facts) if facts.variants else None,
        folded(
            f"All {len(settings)} settings",
            table(["setting", "value"], _rows(settings), "Settings"),
        ),
        table(["component", "version"], versions, "Versions") if versions else None,
    )


def _variants(facts: Facts) -> Html:
    """What the names of models stand for."""
    rows: list[list[Cell]] = [
        [model, *cells]
        for model, changed in by_method(facts, facts.variants).items()
        for cells in _rows(changed)
    ]
    return table(["model", "setting", "value"], rows, "Where a model has settings of its own")


def _rows(found: dict[str, str]) -> list[list[Cell]]:
    return [[breakable(name), breakable(value)] for name, value in found.items()]

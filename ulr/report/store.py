"""The report of a run: its facts gathered and kept, and the page that is made from them.

Both are kept under `reports` of the warehouse: the facts because the tables that they come from
are replaced by the next run, the page for people. The page can always be made from the facts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from importlib import metadata
from platform import python_version
from typing import Any

from ulr.clicklog.quarantine import examples_of
from ulr.config.load import default_settings, flat
from ulr.config.settings import Settings
from ulr.errors import UserError
from ulr.evaluation.totals import Totals
from ulr.propensity.examination import WAREHOUSE
from ulr.redact import redact
from ulr.report.collect import (
    Model,
    comparison_metrics,
    days_of,
    night_metrics,
    propensity_parts,
    simulated_truth,
    trainings_of,
    weights_of,
)
from ulr.report.facts import NIGHT, Facts, Row, read_facts, report_name
from ulr.report.page import page
from ulr.version import __version__
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

FOLDER = "reports"
LIBRARIES = ("lightgbm", "mlflow", "numba", "numpy", "pyarrow", "pyspark")
# Which stage of a night makes which parts of the facts.
PARTS = {"propensities": ("curve", "joint", "diagnostics"), "pairs": ("weights",),
         "train": ("trainings",), "evaluate": ("metrics",)}  # fmt: skip


def keep_report(storage: Storage, facts: Facts) -> str:
    """Write the facts, then the page made from what was kept of them, as it will be made again."""
    name = report_name(facts)
    storage.write_json(facts.to_json(), FOLDER, f"{name}.json")
    return write_page(storage, kept_facts(storage, name))


def write_page(storage: Storage, facts: Facts) -> str:
    """Write the page; what is returned is what was written."""
    content = page(facts)
    storage.write_text(content, FOLDER, f"{report_name(facts)}.html")
    return content


def page_place(storage: Storage, name: str) -> str:
    """Where the page of a run is."""
    return storage.shown(FOLDER, f"{name}.html")


def kept_facts(storage: Storage, name: str) -> Facts:
    """The facts of a run by its name."""
    if name not in report_names(storage):
        raise UserError(f"no report {name} in {storage.shown(FOLDER)}; {_there(storage)}")
    return read_facts(storage.read_json(FOLDER, f"{name}.json") or {})


def report_names(storage: Storage) -> list[str]:
    """The runs that have a report, sorted."""
    names = [f.path.rpartition("/")[2] for f in storage.files(FOLDER)]
    return [n.removesuffix(".json") for n in names if n.endswith(".json")]


def latest_night(storage: Storage) -> str:
    """The night to look at when none is named."""
    nights = [name for name in report_names(storage) if name[:4].isdigit()]
    if not nights:
        raise UserError(f"no night has a report in {storage.shown(FOLDER)}; {_there(storage)}")
    return nights[-1]


def _there(storage: Storage) -> str:
    names = report_names(storage)
    return f"there is {', '.join(names)}" if names else "`ulr nightly` makes the first"


def night_facts(
    warehouse: Warehouse,
    summary: Mapping[str, Any],
    settings: Settings,
    *,
    methods: Sequence[str],
    window: Sequence[dt.date],
    trained: Sequence[dt.date],
    judged: str,
) -> Facts:
    """What a night has left. summary: as in `nights`; methods: the model first, then baselines."""
    stages = list(summary["stages"])
    models = [Model(method, method, warehouse) for method in methods]
    found, missing = propensity_parts(warehouse, window)
    found |= {"weights": weights_of(models, trained), "trainings": trainings_of(models, trained),
              "metrics": night_metrics(models[0], trained)}  # fmt: skip
    unmade = _not_made(stages)
    verdict = next((s["details"] for s in stages if s["stage"] == "promote"), None)
    return Facts(
        kind=NIGHT,
        name=summary["date"],
        judged=judged,
        methods=list(methods),
        metric=settings.promote.metric,
        stages=[{k: v for k, v in s.items() if k != "details"} for s in stages],
        verdict=verdict or None,
        missing=missing | unmade,
        **_about(warehouse, settings, window),
        **{name: value for name, value in found.items() if name not in unmade},
    )


def comparison_facts(
    kind: str,
    name: str,
    warehouse: Warehouse,
    models: Sequence[Model],
    settings: Settings,
    *,
    metric: str,
    totals: Totals,
    window: Sequence[dt.date],
    trained: Sequence[dt.date],
    variants: Mapping[str, Settings],
) -> Facts:
    """Models side by side. warehouse: the one whose log it was; variants: every model's settings,
    the first's before the others'."""
    found, missing = propensity_parts(models[0].warehouse, window)
    if settings.pairs.propensities != WAREHOUSE:
        given = "Examination was not estimated: `pairs.propensities` names a file that gives it."
        found, missing = {}, dict.fromkeys(PARTS["propensities"], given)
    return Facts(
        kind=kind,
        name=name,
        methods=[model.name for model in models],
        metric=metric,
        metrics=comparison_metrics(totals),
        weights=weights_of(models, trained),
        trainings=trainings_of(models, trained),
        missing=missing,
        variants=differences(variants),
        **_about(warehouse, settings, window),
        **found,
    )


def differences(variants: Mapping[str, Settings]) -> dict[str, dict[str, str]]:
    """In which settings each is not like the first, where there are any but the method."""
    every = {name: flat(s.model_dump(mode="json")) for name, s in variants.items()}
    first = next(iter(every.values()))
    found = {name: {key: value for key, value in own.items()
                    if first.get(key) != value and key != "pairs.method"}
             for name, own in every.items()}  # fmt: skip
    return {name: redact(changed) for name, changed in found.items() if changed}


def _not_made(stages: Sequence[Row]) -> dict[str, str]:
    """Parts that this night failed to make or never came to, and why."""
    failed = next((n for n, s in enumerate(stages) if s["status"] == "failed"), len(stages))
    why = {}
    for n, stage in enumerate(stages[failed:], failed):
        name = stage["stage"]
        told = f"The stage {name} failed: {stage['message']}"
        if n > failed:
            told = f"The stage {name} did not run: the night ended in {stages[failed]['stage']}."
        why |= dict.fromkeys(PARTS.get(name, ()), told)
    return why


def _about(warehouse: Warehouse, settings: Settings, window: Sequence[dt.date]) -> dict[str, Any]:
    """The data, the settings without secrets, which of them are not the defaults, and versions."""
    days = days_of(warehouse, window)
    unused = {"simulate", "plan_swaps"}
    both = (settings, default_settings())
    own, default = (flat(s.model_dump(mode="json", exclude=unused)) for s in both)
    libraries = {name: metadata.version(name) for name in LIBRARIES}
    return {
        "window": [str(date) for date in window],
        "days": days,
        "quarantine": examples_of(warehouse, [day["date"] for day in days]),
        "truth": simulated_truth(settings),
        "settings": redact(own),
        "changed": [name for name, value in own.items() if default.get(name) != value],
        "versions": {"ulr": __version__, "python": python_version(), **libraries},
    }

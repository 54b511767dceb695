"""Facts of many nights: promotions, kept champions, and failed nights."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from tests.support.report_samples import day, estimate, night
from ulr.report.facts import Facts

FIRST = dt.date(2026, 1, 1)
STAGES = ("groups", "propensities", "pairs", "train", "evaluate", "promote")


def name_of(number: int) -> str:
    """Return the date of a night; the first one is number 0."""
    return str(FIRST + dt.timedelta(days=number))


def night_facts(
    number: int, outcome: str, *, champion: int | None = None, value: float = 0.5
) -> Facts:
    """Return the facts of a night whose model is version number + 1.

    champion: before the night. value: of the champion after the night; 0.1 above production.
    """
    name = name_of(number)
    subject = "champion" if outcome == "kept" else "joint"
    metrics = [estimate(subject, "snips_dcg", value),
               estimate("logging", "snips_dcg", value - 0.1)]  # fmt: skip
    if outcome == "kept":
        metrics.append(estimate("joint", "snips_dcg", value - 0.05))
    verdict = {"outcome": outcome, "version": number + 1, "champion": champion,
               "passed": outcome != "kept", "reasons": [], "against": []}  # fmt: skip
    stages = [{"stage": stage, "status": "done", "seconds": 10.0 * n, "message": ""}
              for n, stage in enumerate(STAGES, start=1)]  # fmt: skip
    return replace(
        night(), name=name, window=[name], verdict=verdict, metrics=metrics, stages=stages,
        days=[day(name, pages=1000 + number, read=2000, **{"bad:null_query_id": 20})],
    )  # fmt: skip


def failed_facts(number: int, message: str = "5% of the rows are bad") -> Facts:
    """Return the facts of a night that failed in its first stage."""
    stages = [{"stage": s, "status": "not run", "seconds": 0.0, "message": ""} for s in STAGES]
    stages[0] |= {"status": "failed", "seconds": 3.0, "message": message}
    return replace(
        night(), name=name_of(number), stages=stages, verdict=None, metrics=[], curve=[], days=[]
    )


def many_nights(number: int) -> list[Facts]:
    """Return nights of which every tenth fails and every seventh promotes its model."""
    nights, champion = [], None
    for n in range(number):
        if n % 10 == 9:
            nights.append(failed_facts(n))
            continue
        outcome = "promoted" if n % 7 == 0 else "kept"
        value = 0.5 + 0.01 * (n % 5)
        nights.append(night_facts(n, outcome, champion=champion, value=value))
        champion = n + 1 if outcome == "promoted" else champion
    return nights

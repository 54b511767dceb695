"""The result of a check, and the p-values behind it (docs/methods.md section 9).

A check that consists of m tests raises an alarm if a p-value is below significance / m
(Bonferroni), which limits false alarms.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import chdtrc, stdtr

NOTE = "note"  # a verdict that is shown and blocks no promotion by default
# The alarms of these checks block a promotion by default. Those of other checks are notes: a log
# without swap buckets, or of users who stop after clicks, can have a champion too.
BLOCKING_CHECKS = ("components", "sample_ratio", "agreement")


@dataclass(frozen=True)
class Finding:
    """The result of one check of one subject. verdict: ok, note, warning or refused.

    A note is an alarm that never blocks a promotion by default.
    """

    check: str
    subject: str
    value: float
    p_value: float
    verdict: str
    message: str


def bonferroni(
    rows: list[tuple[str, str, float, float, str]], significance: float
) -> list[Finding]:
    """Return the findings of one check; a row is (check, subject, value, p_value, message)."""
    limit = significance / max(len(rows), 1)
    return [Finding(*row[:4], verdict_of(row[0], row[3] < limit), row[4]) for row in rows]


def verdict_of(check: str, alarm: bool) -> str:
    if not alarm:
        return "ok"
    return "warning" if check in BLOCKING_CHECKS else "note"


def chi2_p(statistic: float, dof: int) -> float:
    """Return P(chi-square >= statistic), as scipy.stats, which takes 0.5 s to import."""
    return float(chdtrc(dof, max(statistic, 0.0)))


def t_p(statistic: float, dof: float) -> float:
    """Return P(Student's t >= statistic)."""
    return float(stdtr(dof, -statistic))

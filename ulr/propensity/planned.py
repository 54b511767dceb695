"""The pages of a swap experiment against its plan (docs/methods.md section 9)."""

from __future__ import annotations

import numpy as np
import scipy  # loads scipy.optimize, which takes 0.3 s, when it is used
from scipy.special import chdtrc

from ulr.errors import UserError
from ulr.experiments.buckets import is_shuffle, parse_bucket
from ulr.experiments.serving import Plan, load_plan
from ulr.propensity.swap_counts import SwapCounts
from ulr.warehouse.storage import Storage

CHECK = "sample_ratio"
Row = tuple[str, str, float, float, str]  # check, subject, value, p-value, message


def read_plan(file: str) -> tuple[Plan, str]:
    """Return the plan in a file of `ulr plan-swaps --out`, and the file's text."""
    folder, _, name = file.rpartition("/")
    try:
        text = Storage(folder or ("/" if file.startswith("/") else ".")).read_text(name)
    except FileNotFoundError:
        raise UserError(f"plan_swaps.plan: {file} does not exist") from None
    try:
        return load_plan(text), text
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"plan_swaps.plan: {file} is not a plan as `ulr plan-swaps --out` writes it: {error!r}"
        ) from None


def arm_row(name: str, kept: int, swapped: int, share: float) -> Row:
    """Test the sizes of a bucket's arms (chi-square). share: of the swapped arm."""
    pages = kept + swapped
    statistic = (swapped - share * pages) ** 2 / max(share * (1 - share) * pages, 1e-300)
    planned = "" if share == 0.5 else f", {share:.0%} planned"
    message = f"bucket {name}: {kept:,} pages in the kept arm, {swapped:,} in the swapped arm"
    return CHECK, name, statistic, float(chdtrc(1, statistic)), message + planned


def bucket_rows(counts: SwapCounts, plan: Plan) -> list[Row]:
    """Test the sizes of the buckets against their fractions (chi-square).

    A page that is too short for its bucket is in none, so the fraction of the traffic that is long
    enough may fall with the bucket's deepest position. It is fitted, and no page more than all is
    expected; the test therefore errs towards agreement.
    """
    fractions = {b: f for b, f in plan.buckets if not is_shuffle(b) and f > 0}
    names = [name for name in fractions if parse_bucket(name).last_position <= counts.positions]
    pages = np.array([counts.buckets[n].sessions if n in counts.buckets else 0 for n in names])
    if len(names) < 2 or not pages.any():
        return []
    fraction = np.array([fractions[name] for name in names])
    depth, of_depth = np.unique(
        [parse_bucket(name).last_position for name in names], return_inverse=True
    )
    share, shown = (np.bincount(of_depth, x, depth.size) for x in (fraction, pages))
    long_enough = scipy.optimize.isotonic_regression(
        shown / share, weights=share, increasing=False
    ).x
    expected = fraction * np.minimum(long_enough, _all_pages(counts))[of_depth]
    terms = (pages - expected) ** 2 / np.maximum(expected, 1e-9)
    largest = int(np.argmax(terms))
    message = (
        f"pages of {len(names)} buckets against the plan; largest deviation in bucket "
        f"{names[largest]}: {pages[largest]:,} pages, {expected[largest]:,.0f} expected"
    )
    p = float(chdtrc(len(names) - 1, terms.sum()))
    return [(CHECK, "plan", float(terms.sum()), p, message)]


def name_rows(counts: SwapCounts, plan: Plan) -> list[Row]:
    """Name buckets in the log that the plan does not have, and planned ones without pages."""
    planned = {b for b, f in plan.buckets if f > 0 and not is_shuffle(b)}
    planned = {b for b in planned if parse_bucket(b).last_position <= counts.positions}
    logged = {name for name, arms in counts.buckets.items() if arms.sessions}
    if any(is_shuffle(b) for b, f in plan.buckets if f > 0):
        planned.add("shuffle")
    if counts.shuffles:
        logged.add("shuffle")
    rows = []
    for subject, names, text in (
        ("unknown buckets", logged - planned, "the plan does not have buckets of the log"),
        ("empty buckets", planned - logged, "the log has no pages of planned buckets"),
    ):
        if names:
            listed = ", ".join(sorted(names, key=lambda name: (len(name), name)))
            rows.append((CHECK, subject, float(len(names)), 0.0, f"{text}: {listed}"))
    return rows


def _all_pages(counts: SwapCounts) -> int:
    arms = [arms.sessions for arms in counts.buckets.values()]
    arms += [arm.sessions for arm in counts.shuffles.values()]
    return sum(arms) + (counts.outside.sessions if counts.outside is not None else 0)

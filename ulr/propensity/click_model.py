"""Whether clicks show trust bias or users who stop, from the sums within displayed rankings.

These sums take a pass over the groups of the window. It is made if they are needed: for the
estimator `affine`, if the test of trust bias raises an alarm, or if the cascade fits the co-clicks
of the swap buckets best.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ulr.config.settings import Propensities
from ulr.kernels.within_rankings import RankingSums
from ulr.propensity.browsing import BrowsingFit
from ulr.propensity.cascade import NAME, PHI
from ulr.propensity.examination import AFFINE, CASCADE
from ulr.propensity.findings import Finding
from ulr.propensity.kappa import Kappa, estimate_kappa
from ulr.propensity.stopping import Stopping, estimate_stopping

MIN_PHI = 0.02  # a smaller fit is that of continuous browsing with theta(k) = beta^(k-1)


@dataclass(frozen=True)
class ClickFindings:
    """Estimates over all traffic; None if they are not needed or have too little data.

    click_model: `affine`, `cascade`, or "" if a click is examination and relevance alone.
    """

    kappa: Kappa | None = None
    stopping: Stopping | None = None
    click_model: str = ""


def needs_rankings(
    fits: Iterable[BrowsingFit], findings: Iterable[Finding], settings: Propensities
) -> bool:
    """Return whether the sums within rankings would tell something that the other checks do not."""
    affine = settings.estimator == AFFINE and settings.joint != "none"
    return affine or has_trust_bias(findings) or fits_cascade(fits)


def has_trust_bias(findings: Iterable[Finding]) -> bool:
    """Return whether the test of trust bias raised an alarm."""
    return any(f.check == "intercept" and f.verdict != "ok" for f in findings)


def fits_cascade(fits: Iterable[BrowsingFit]) -> bool:
    """Return whether a cascade in which clicks matter fits the co-clicks best."""
    best = min(fits, key=lambda fit: fit.bic, default=None)
    if best is None or best.name != NAME:
        return False
    phi = best.parameters[PHI]
    return isinstance(phi, float) and phi >= MIN_PHI


def find_click_model(
    sums: RankingSums,
    buckets: Sequence[str],
    fits: Iterable[BrowsingFit],
    findings: Iterable[Finding],
    settings: Propensities,
) -> ClickFindings:
    """Return the estimates, and the click model that they and the findings call for.

    Users who stop come first: a swap then changes what is clicked above other positions, which the
    test of trust bias does not know of. Both models need their estimates: alpha and beta are those
    of the estimator `affine`, beta of users who stop needs a swap bucket.
    """
    kappa = estimate_kappa(sums.pairs, min_support=settings.min_coclicks)
    stopping = None
    if fits_cascade(fits):
        stopping = estimate_stopping(sums, buckets, min_support=settings.min_coclicks)
    if stopping is not None and stopping.stops(settings.significance) and stopping.beta > 0:
        return ClickFindings(kappa, stopping, CASCADE)
    trusted = settings.estimator == AFFINE and has_trust_bias(findings)
    return ClickFindings(kappa, stopping, AFFINE if trusted else "")

"""The question, a good result and a remedy of every diagnostic."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """The question a check answers, what a good result means, and what to do about a bad one."""

    question: str
    good: str
    remedy: str


CHECKS = {
    "estimator": Advice(
        "Is theta from swap experiments?",
        "All positions that matter have enough clicks in swap buckets.",
        "Run a swap experiment (`ulr plan-swaps` computes its size): its theta needs no assumption "
        "on why rankings change or what features explain. Until then the message names what theta "
        "rests on, and the setting that decides otherwise.",
    ),
    "components": Advice(
        "Are all positions linked by comparisons?",
        "Every position with an estimate can be compared with position 1.",
        "Add a swap bucket between the groups of positions named above; `ulr plan-swaps` computes "
        "its size. Until then their theta is imputed along the curve of the others, or lists are "
        "cut above them (`propensities.depth: estimated`).",
    ),
    "depth": Advice(
        "Have all positions that are shown enough clicks in experiments?",
        "For information only; this check raises no alarm.",
        "",
    ),
    "sample_ratio": Advice(
        "Do both arms of every swap bucket have the same number of pages?",
        "Requests were split evenly between the arms.",
        "Pages of one arm are lost before they are logged. Compare the pages served with the pages "
        "logged for this bucket, and exclude its pages from the log until the numbers are equal.",
    ),
    "untouched": Advice(
        "Do positions that a swap does not touch have equal click rates in both arms?",
        "Swapping two documents did not change the click rates of the other positions.",
        "The arms differ in more than the swap. Check whether one of them uses a cache or another "
        "ranker. Users who stop after clicks are reported as such, and do not raise this alarm.",
    ),
    "stops_after_click": Advice(
        "Do users stop after a click?",
        "Clicks do not change what is examined below them.",
        "Use `pairs.method=auto` or `cascade`, if beta is known: they weigh a click by the clicks "
        "above it. theta and psi are averages over what is clicked above.",
    ),
    "agreement": Advice(
        "Do different buckets give the same theta for a position?",
        "All buckets give the same theta, within the error of the estimates.",
        "The log mixes traffic with different examination curves, or the page changed within the "
        "window. Log devices or layouts as `segment`, or reduce `propensities.window_days`.",
    ),
    "intercept": Advice(
        "Are irrelevant documents clicked because of their position (trust bias)?",
        "The click rate tends to 0 as relevance tends to 0.",
        "Set `propensities.estimator=affine`, `pairs.method=affine` and "
        "`evaluate.correction=affine`; they correct for these clicks.",
    ),
    "curvature": Advice(
        "Is the click rate a linear function of relevance?",
        "The linear click model fits.",
        "Neither theta nor the affine model fits this position. Check whether segments have "
        "different examination curves, and compare methods on golden labels before relying on "
        "clicks.",
    ),
    "drift": Advice(
        "Has examination changed since the earlier window?",
        "The examination curve is the same as in the earlier window.",
        "Find out what changed on the page, and start the window after the change "
        "(`propensities.window_days`).",
    ),
    "harvest_days": Advice(
        "Does harvesting give the same theta within days and between days?",
        "Documents that moved within a day and from day to day give the same theta.",
        "Relevance moves from day to day and the ranker follows, so theta of `all_pairs`, `pivot` "
        "and `adjacent` is wrong, by a factor at deep positions. Run a swap experiment "
        "(`ulr plan-swaps`), or use a window of one day if rankings change within a day.",
    ),
    "harvest_relevance": Advice(
        "Do rankings change for reasons that have nothing to do with relevance?",
        "The fall of click rates depends on the positions, not on the relevance of the documents.",
        "Rankings seem to follow the user or the day: a document is shown higher to those who like "
        "it. Harvesting attributes this to theta. Run a swap experiment (`ulr plan-swaps`).",
    ),
    "harvest_swaps": Advice(
        "Does theta without an experiment agree with the swap buckets of the log?",
        "The swap buckets give the same theta, within the errors of both.",
        "Believe the swaps: set `propensities.estimator=combined`.",
    ),
    "features": Advice(
        "Do the shown documents have features?",
        "Regression-EM used nearly all impressions.",
        "theta is that of the documents with features. Add the others to the features table "
        "(`propensities.regression_em.features`), or use an estimator without features.",
    ),
    "calibration": Advice(
        "Does the relevance model of regression-EM predict relevance without shrinking it?",
        "Relevance varies as much as its prediction.",
        "Set more trees (`propensities.regression_em.trees`) or better features. Until then theta "
        "is biased, and its errors do not show it.",
    ),
    "levels": Advice(
        "Do all levels of feedback have the same examination curve?",
        "Deeper events fall with the position as clicks do.",
        "Given a click, the event depends on the position: the page may offer it without a click, "
        "or users at deep positions click with another intent. Weights use the curve of the lowest "
        "level, so gains of higher levels are biased; compare a model with `log.feedback` of the "
        "lowest event alone.",
    ),
    "joint": Advice(
        "Are pairs of positions examined independently?",
        "For information only; this check raises no alarm.",
        "",
    ),
}  # fmt: skip
OTHER = Advice("", "No problem was found.", "Follow the message above.")

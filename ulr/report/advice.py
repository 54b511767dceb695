"""Every diagnostic as a question, and what to do when its answer is bad."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """question: what the check asks; good: what a good answer means; remedy: what to do else."""

    question: str
    good: str
    remedy: str


CHECKS = {
    "components": Advice(
        "Are all positions linked by comparisons?",
        "Every position that has a value can be compared with position 1.",
        "Add a swap bucket between the groups of positions named here (`ulr plan-swaps` sizes it). "
        "Until then, lists end before the first position that is not linked.",
    ),
    "sample_ratio": Advice(
        "Did both arms of every swap bucket get as many pages?",
        "Requests were halved as they should be.",
        "One arm loses pages on the way to the log. Compare pages served with pages logged for "
        "this bucket, and keep its pages out of the log until both arms are even.",
    ),
    "untouched": Advice(
        "Are positions that a swap leaves alone clicked alike in both arms?",
        "Swapping two documents did not change how the others are clicked.",
        "The arms differ in more than the swap: look for caching or another ranker in one of them. "
        "If there is none, a click depends on what was clicked above, and theta is an average.",
    ),
    "agreement": Advice(
        "Do buckets that reach a position by different ways agree on it?",
        "The buckets tell one story.",
        "Mixed traffic or a change within the window: give every device or layout its own "
        "`segment`, or shorten `propensities.window_days`.",
    ),
    "intercept": Advice(
        "Are documents clicked for their place alone (trust bias)?",
        "Clicks fall to nothing where relevance does.",
        "Use `propensities.estimator=affine`, `pairs.method=affine` and "
        "`evaluate.correction=affine`, which take these clicks out.",
    ),
    "curvature": Advice(
        "Is the click rate a straight line in relevance?",
        "The straight-line model of clicks holds.",
        "Neither theta nor the affine model describes this position fully. Look for segments with "
        "curves of their own; compare methods by golden labels before trusting the clicks.",
    ),
    "drift": Advice(
        "Has examination changed since the earlier window?",
        "The curve is the one of the earlier window.",
        "Find out what changed on the page, and let the window begin after it "
        "(`propensities.window_days`).",
    ),
    "joint": Advice(
        "Are pairs of positions examined independently?",
        "A description, not an alarm: what the measured pairs look like.",
        "",
    ),
}  # fmt: skip
UNKNOWN = Advice("A check without a description", "It found nothing to report.", "See its words.")

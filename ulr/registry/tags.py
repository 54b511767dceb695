"""The MLflow tags of runs and versions; all have the prefix `ulr.`."""

from __future__ import annotations

PREFIX = "ulr."

# Of a training: its run and its version.
FINGERPRINT = "ulr.fingerprint"  # of the published model: a training is registered once
PACKAGE_VERSION = "ulr.version"
METHOD = "ulr.method"  # pairs.method
WINDOW = "ulr.window"  # the dates it was trained on, as FIRST..LAST
PAIRS = "ulr.pairs"  # fingerprint of its pairs
GROUPS = "ulr.groups"  # fingerprint of its groups

# Of a version and its run, written by the gate.
VERDICT = "ulr.verdict"  # promoted | kept
REASONS = "ulr.reasons"
PREVIOUS_CHAMPION = "ulr.previous_champion"  # version number
ROLLED_BACK = "ulr.rolled_back"  # the reason of the rollback

# Of runs that are no trainings.
LIVE = "ulr.live"  # fingerprint of the training whose progress the run shows
COMPARISON = "ulr.comparison"  # fingerprint of the comparison
COMPARED = "ulr.compared."  # prefix of a training's tags in a comparison, which registers nothing


def compared_tags(tags: dict[str, str]) -> dict[str, str]:
    """Return a training's tags for its run in a comparison."""
    return {COMPARED + name.removeprefix(PREFIX): value for name, value in tags.items()}

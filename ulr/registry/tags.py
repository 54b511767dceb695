"""The MLflow tags of runs and versions; all have the prefix `ulr.`."""

from __future__ import annotations

# Of a training: its run and its version.
FINGERPRINT = "ulr.fingerprint"  # of the published model: a training is registered once
PACKAGE_VERSION = "ulr.version"
METHOD = "ulr.method"  # pairs.method
WINDOW = "ulr.window"  # the dates it was trained on, as FIRST..LAST
PAIRS = "ulr.pairs"  # fingerprint of its pairs
GROUPS = "ulr.groups"  # fingerprint of its groups
MODEL_SHA256 = "ulr.model_sha256"  # of the model's text; compared when the model is read
EXPORTS = "ulr.exports"  # formats in the folder `export` of the run

# Of a version and its run, written by the gate.
VERDICT = "ulr.verdict"  # promoted | kept
REASONS = "ulr.reasons"
PREVIOUS_CHAMPION = "ulr.previous_champion"  # version number
ROLLED_BACK = "ulr.rolled_back"  # the reason of the rollback

# Of runs that are not registered.
LIVE = "ulr.live"  # fingerprint of the training whose progress the run shows
COMPARISON = "ulr.comparison"  # fingerprint of the comparison
COMPARED = "ulr.compared."  # replaces `ulr.` in a training's tags inside a comparison

"""Plans of an evaluation with the default settings."""

from __future__ import annotations

from ulr.config.load import load_settings
from ulr.evaluation.metrics import EvaluationPlan


def evaluation_plan(examination, **changes):
    """Return a plan; changes: of the settings in the section `evaluate`."""
    settings = load_settings(None).evaluate.model_copy(update=changes)
    return EvaluationPlan(settings, examination)

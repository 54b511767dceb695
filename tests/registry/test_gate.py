import math

import pytest

from ulr.evaluation.totals import Estimate
from ulr.registry.gate import (
    Check,
    check_diagnostics,
    check_lead,
    check_sample_size,
    decide,
)


def lead(lower, upper):
    return Estimate((lower + upper) / 2, 0.1, lower, upper, 0.5, 100)


@pytest.mark.parametrize(
    ("metric", "low", "high", "passed"),
    [
        ("snips_dcg", -0.2, 0.01, True),  # worse, but 0 is inside the interval
        ("snips_dcg", -0.2, -0.01, False),
        ("snips_dcg", 0.1, 0.2, True),
        ("snips_mean_relevant_rank", 0.01, 0.2, False),  # a higher average rank is worse
        ("snips_mean_relevant_rank", -0.2, -0.1, True),
        ("pair_loss", 0.01, 0.02, False),
        ("mean_relevant_rank", -0.01, 0.02, True),
        ("snips_dcg", -math.inf, math.inf, True),  # a single query
    ],
)
def test_a_model_is_worse_only_if_its_whole_interval_is(metric, low, high, passed):
    check = check_lead(metric, lead(low, high))
    assert check.passed == passed
    assert ("not worse than" in check.message) == passed


def test_a_small_or_unknown_effective_sample_size_fails():
    assert check_sample_size(1000.0, 1000.0).passed
    assert "below" in check_sample_size(999.0, 1000.0).message
    assert not check_sample_size(999.0, 1000.0).passed
    assert not check_sample_size(None, 1000.0).passed
    assert check_sample_size(None, 0.0).passed


@pytest.mark.parametrize(
    ("setting", "verdict", "passed"),
    [
        ("warning", "warning", False), ("warning", "refused", False), ("warning", "ok", True),
        ("refused", "warning", True), ("refused", "refused", False), ("ignore", "refused", True),
    ],
)  # fmt: skip
def test_the_setting_defines_which_diagnostics_block(setting, verdict, passed):
    checks = check_diagnostics([{"verdict": verdict, "message": "arms of unequal size"}], setting)
    failed = [Check(False, f"diagnostics, {verdict}: arms of unequal size")]
    assert checks == ([] if passed else failed)


def test_the_verdict_has_every_reason_and_force_overrules_it():
    checks = [Check(True, "a"), Check(False, "b"), Check(False, "c")]
    verdict = decide(checks)
    assert not verdict.passed
    assert (verdict.reasons, verdict.against) == (["a", "b", "c"], ["b", "c"])
    forced = decide(checks, force="a trial")
    assert forced.passed
    assert forced.reasons == ["forced: a trial", "a", "b", "c"]
    assert forced.against == ["b", "c"]
    assert decide(checks[:1]).passed

import math

import pytest

from ulr.evaluation.totals import Estimate
from ulr.registry.gate import decide


def lead(lower, upper):
    return Estimate((lower + upper) / 2, 0.1, lower, upper, 0.5, 100)


def verdict(**changes):
    usual = {"metric": "snips_dcg", "lead": lead(-0.1, 0.1), "sample_size": 5000.0,
             "min_sample_size": 1000.0, "findings": [], "block": "warning"}  # fmt: skip
    return decide(**(usual | changes))


@pytest.mark.parametrize(
    ("metric", "low", "high", "passed"),
    [
        ("snips_dcg", -0.2, 0.01, True),  # worse, but not beyond the interval
        ("snips_dcg", -0.2, -0.01, False),
        ("snips_dcg", 0.1, 0.2, True),
        ("snips_arp", 0.01, 0.2, False),  # a higher position is a worse one
        ("snips_arp", -0.2, -0.1, True),
        ("pair_loss", 0.01, 0.02, False),
        ("arp", -0.01, 0.02, True),
    ],
)
def test_worse_means_that_the_whole_interval_is(metric, low, high, passed):
    found = verdict(metric=metric, lead=lead(low, high))
    assert found.passed == passed
    assert ("worse than" in found.against[0]) if found.against else passed


def test_without_a_champion_there_is_nobody_to_be_worse_than():
    assert verdict(lead=None).passed
    assert not verdict(lead=None, sample_size=999.0).passed


def test_one_query_proves_nothing_against_it():
    assert verdict(lead=lead(-math.inf, math.inf)).passed


def test_thin_weights_and_unknown_ones_speak_against():
    assert "below" in verdict(sample_size=999.0).against[0]
    assert "not known" in verdict(sample_size=None).against[0]
    assert verdict(sample_size=None, min_sample_size=0.0).passed


@pytest.mark.parametrize(
    ("block", "level", "passed"),
    [
        ("warning", "warning", False), ("warning", "refused", False), ("warning", "ok", True),
        ("refused", "warning", True), ("refused", "refused", False), ("ignore", "refused", True),
    ],
)  # fmt: skip
def test_the_setting_says_which_findings_block(block, level, passed):
    finding = {"verdict": level, "message": "arms of unequal size"}
    found = verdict(findings=[finding], block=block)
    assert found.passed == passed
    assert any("arms of unequal size" in w for w in found.against) != passed


def test_every_reason_is_told_not_only_the_first():
    found = verdict(lead=lead(-2, -1), sample_size=1.0)
    assert len(found.against) == 2
    assert len(found.reasons) == 2

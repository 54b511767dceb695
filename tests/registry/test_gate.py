import pytest

from ulr.registry.gate import (
    Check,
    check_comparison,
    check_diagnostics,
    check_size,
    decide,
)
from ulr.registry.noninferiority import Comparison


def comparison(gain, error):
    return Comparison(gain, error, gain - 1.96 * error, gain + 1.96 * error, 100, margin=0.005)


@pytest.mark.parametrize(
    ("gain", "undecided", "passed"),
    [
        (0.01, "keep", True), (-0.01, "promote", False),  # decided whatever the setting
        (-0.003, "estimate", True), (-0.006, "estimate", False),
        (-0.003, "keep", False), (-0.006, "promote", True),
    ],
)  # fmt: skip
def test_a_comparison_passes_by_its_interval_and_else_by_the_setting(gain, undecided, passed):
    check = check_comparison(comparison(gain, 0.002), "text", anchor=False, undecided=undecided)
    assert check.passed == passed
    assert check.undecided == (abs(gain) < 0.01)
    assert check.message.startswith("text")


def test_a_small_or_unknown_effective_size_fails():
    assert check_size("clicks", 1000.0, 1000.0).passed
    below = check_size("queries", 99.0, 100.0)
    assert below.message == "99 effective queries, below promote.min_effective_queries = 100"
    assert not below.passed
    assert not check_size("clicks", None, 1000.0).passed
    assert check_size("clicks", None, 0.0).passed


@pytest.mark.parametrize(
    ("setting", "verdict", "passed"),
    [
        ("warning", "warning", False), ("warning", "refused", False), ("warning", "ok", True),
        ("warning", "note", True), ("note", "note", False), ("note", "warning", False),
        ("refused", "warning", True), ("refused", "refused", False), ("ignore", "refused", True),
    ],
)  # fmt: skip
def test_the_setting_defines_which_diagnostics_block(setting, verdict, passed):
    checks = check_diagnostics([{"verdict": verdict, "message": "arms of unequal size"}], setting)
    failed = [Check(False, f"diagnostics, {verdict}: arms of unequal size")]
    assert checks == ([] if passed else failed)


def test_the_verdict_has_every_reason_and_force_overrules_it():
    checks = [Check(True, "a"), Check(False, "b"), Check(False, "c", undecided=True)]
    verdict = decide(checks)
    assert not verdict.passed
    assert (verdict.reasons, verdict.against) == (["a", "b", "c"], ["b", "c"])
    assert verdict.undecided == ["c"]
    forced = decide(checks, force="a trial")
    assert forced.passed
    assert forced.reasons == ["forced: a trial", "a", "b", "c"]
    assert forced.against == ["b", "c"]
    assert decide(checks[:1]).passed

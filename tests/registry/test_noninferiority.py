from math import inf, sqrt

import numpy as np
import pytest

from tests.support.gate_nights import Nights, even, zipf
from ulr.evaluation.totals import Estimate
from ulr.registry.noninferiority import Comparison, compare, describe

MARGIN = 0.005
TRAFFIC = {"even": even(500), "zipf": zipf(2000)}


def comparison(gain, error, margin=MARGIN):
    return Comparison(gain, error, gain - 1.96 * error, gain + 1.96 * error, 400, margin)


@pytest.mark.parametrize(
    ("gain", "error", "state"),
    [
        (0.0, 0.002, "not worse"),
        (0.0, 0.003, "undecided"),
        (-0.004, 0.0005, "not worse"),  # worse, but within the margin
        (-0.01, 0.002, "worse"),
        (-0.02, inf, "undecided"),  # a single query
    ],
)
def test_only_an_interval_on_one_side_of_the_margin_decides(gain, error, state):
    assert comparison(gain, error).state == state


@pytest.mark.parametrize(("metric", "sign"), [("snips_dcg", 1), ("pair_loss", -1)])
def test_gains_are_relative_and_positive_where_the_challenger_is_better(metric, sign):
    lead = Estimate(sign * 0.1, 0.05, sign * 0.1 - 0.2, sign * 0.1 + 0.2, 0.5, 400)
    result = compare(metric, lead, -2.0, MARGIN)  # an unbiased loss may be negative
    assert result.gain == pytest.approx(0.1 / 2)
    assert (result.lower, result.upper) == pytest.approx((0.05 - 0.1, 0.05 + 0.1))
    assert result.error == pytest.approx(0.05 / 2)
    assert compare(metric, lead, 0.0, MARGIN).gain == pytest.approx(0.1)


def test_an_estimate_against_the_anchor_must_also_exclude_two_margins():
    assert comparison(-MARGIN, 0.02).accepts(anchor=False)
    assert not comparison(-1.01 * MARGIN, 0.001).accepts(anchor=False)
    assert not comparison(0.0, 0.02).accepts(anchor=True)
    needed = 1.37 * 0.02 - 2 * MARGIN
    assert comparison(1.01 * needed, 0.02).accepts(anchor=True)
    assert not comparison(0.99 * needed, 0.02).accepts(anchor=True)


def test_an_undecided_night_says_what_it_could_detect_and_what_would_decide():
    undecided = comparison(-0.001, 0.01)
    assert undecided.detectable == pytest.approx((1.960 + 0.842) * 0.01)
    more = (0.01 * 1.282 / MARGIN) ** 2
    assert undecided.times_more_data() == pytest.approx(more)
    text = describe("snips_dcg", undecided, "the champion", days=30)
    assert text == (
        "snips_dcg against the champion is undecided: -0.10% [-2.06%, +1.86%] with a margin of "
        f"0.50%, 400 queries; a loss of 2.80% would have been detected; about "
        f"{int(400 * more) + 1:,} queries or {int(30 * more) + 1} days would decide"
    )
    decided = describe("snips_dcg", comparison(0.001, 0.001), "the champion", days=None)
    assert "is not worse than that of the champion: +0.10%" in decided
    assert "would decide" not in decided
    never = describe("snips_dcg", comparison(0.0, 0.01, margin=0.0), "the champion", days=30)
    assert "would decide" not in never


@pytest.mark.parametrize("traffic", TRAFFIC)
@pytest.mark.parametrize("error", [0.002, 0.0035])
def test_where_the_data_can_tell_equal_models_pass_and_models_1_percent_worse_do_not(
    traffic, error
):
    nights = Nights(TRAFFIC[traffic], error)
    assert nights.promotion_rate(1, gain=0.0, nights=1000) >= 0.9
    assert nights.promotion_rate(2, gain=-0.01, nights=1000) <= 0.1


@pytest.mark.parametrize("traffic", TRAFFIC)
@pytest.mark.parametrize("error", [0.0035, 0.01, 0.03])
def test_20_nights_of_challengers_that_are_each_slightly_worse_lose_at_most_1_percent(
    traffic, error
):
    nights = Nights(TRAFFIC[traffic], error)
    losses = [nights.slide(seed, step=0.004, nights=20) for seed in range(100)]
    assert np.mean(losses) + np.std(losses) / sqrt(len(losses)) <= 0.01


def test_a_better_challenger_passes_also_where_the_data_cannot_tell():
    nights = Nights(TRAFFIC["even"], 0.02)
    equal, better = (nights.promotion_rate(3, gain, nights=1000) for gain in (0.0, 0.05))
    assert 0.1 <= equal <= 0.35  # the champion is refreshed now and then
    assert better >= 0.9


def test_the_setting_decides_undecided_nights():
    rates = {
        setting: Nights(TRAFFIC["even"], 0.05, undecided=setting).promotion_rate(4, 0.0, nights=200)
        for setting in ("keep", "estimate", "promote")
    }
    assert rates["keep"] <= 0.1 <= rates["estimate"] <= 0.9 <= rates["promote"]

"""The check `sample_ratio` against the plan of a swap experiment."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ulr.errors import UserError
from ulr.experiments.buckets import parse_bucket
from ulr.experiments.serving import Plan, assign, load_plan
from ulr.propensity import planned
from ulr.propensity.experiment_checks import sample_ratio_findings
from ulr.propensity.swap_counts import Arm, BucketArms, SwapCounts

SIGNIFICANCE, K = 0.01, 10
PLAN = Plan("s", (("1:2", 0.05), ("1:5", 0.05), ("1:10", 0.1)), (("1:5", 0.3),))


def counts_of(sessions: dict[str, tuple[int, int]], outside=0) -> SwapCounts:
    """Arms of these sizes without clicks."""
    empty = Arm.empty(K).co_clicks
    buckets = {
        name: BucketArms(parse_bucket(name), Arm(kept, empty), Arm(swapped, empty))
        for name, (kept, swapped) in sessions.items()
    }
    return SwapCounts(K, buckets, Arm(outside, empty))


def warnings(sessions, plan: Plan | None = PLAN, outside=0, **options):
    findings = sample_ratio_findings(counts_of(sessions, outside), SIGNIFICANCE, plan, **options)
    return {f.subject: f.message for f in findings if f.verdict == "warning"}


SERVED = {"1:2": (2500, 2500), "1:5": (3500, 1500), "1:10": (5000, 5000)}


def test_arms_are_compared_with_the_planned_split():
    assert warnings(SERVED, outside=80_000) == {}
    assert set(warnings(SERVED, None)) == {"1:5"}
    even = warnings(SERVED | {"1:5": (2500, 2500)}, outside=80_000)
    assert even == {
        "1:5": "bucket 1:5: 2,500 pages in the kept arm, 2,500 in the swapped arm, 30% planned"
    }


def test_the_statistics_are_chi_square():
    counts = counts_of({"1:2": (30, 20), "1:5": (20, 10), "1:10": (70, 70)}, outside=1000)
    rows = planned.bucket_rows(counts, PLAN)
    # 1:10 has more pages per fraction than shallower buckets, so all share 220 / 0.2 = 1,100
    ((check, subject, value, p, _),) = rows
    assert (check, subject) == ("sample_ratio", "plan")
    assert value == pytest.approx(5**2 / 55 + 25**2 / 55 + 30**2 / 110)
    assert p == pytest.approx(np.exp(-value / 2))  # two degrees of freedom
    _, _, value, _, _ = planned.arm_row("1:5", 60, 40, 0.3)
    assert value == pytest.approx(10**2 / 30 + 10**2 / 70)


def test_a_bucket_with_pages_that_the_plan_gives_to_another_is_named():
    unequal = SERVED | {"1:5": (7000, 3000)}
    message = warnings(unequal, outside=200_000)["plan"]
    assert message.endswith("in bucket 1:2: 5,000 pages, 7,500 expected")


def test_short_pages_make_deep_buckets_small_and_raise_no_alarm():
    """Half of the pages have 9 documents, so bucket 1:10 has half of its fraction."""
    plan, served = Plan("s", PLAN.buckets), dict.fromkeys((b for b, _ in PLAN.buckets), 0)
    for n in range(40_000):
        bucket = assign(f"request-{n}", plan, 9 if n % 2 else 10).bucket
        if bucket:
            served[bucket] += 1
    assert served["1:10"] < 0.055 * 40_000
    arms = {name: (n // 2, n - n // 2) for name, n in served.items()}
    assert warnings(arms, plan, outside=40_000 - sum(served.values())) == {}


def test_more_pages_than_the_plan_allows_are_an_alarm():
    assert "plan" in warnings(SERVED, outside=10_000)  # twice the planned fraction


def test_unknown_and_empty_buckets_are_named_for_all_traffic():
    sessions = {"1:2": (2500, 2500), "1:10": (5000, 5000), "1:3": (50, 50)}
    plan = PLAN._replace(buckets=(*PLAN.buckets, ("shuffle", 0.1), ("1:50", 0.1)))
    found = warnings(sessions, plan, outside=80_000)
    assert found["unknown buckets"] == "the plan does not have buckets of the log: 1:3"
    assert found["empty buckets"] == "the log has no pages of planned buckets: 1:5, shuffle"
    segment = warnings(sessions, plan, outside=80_000, all_traffic=False)
    assert set(segment) == {"plan"}


def test_a_plan_file_is_read_with_its_arms(tmp_path):
    text = json.dumps(
        {"salt": "s", "buckets": [{"bucket": "1:5", "fraction": 0.1, "swapped": 0.3}]}
    )
    (tmp_path / "plan.json").write_text(text)
    plan, content = planned.read_plan(str(tmp_path / "plan.json"))
    assert content == text
    assert plan == Plan("s", (("1:5", 0.1),), (("1:5", 0.3),))
    arms = [assign(f"request-{n}", plan, 5) for n in range(40_000)]
    swapped = [a.swapped for a in arms if a.bucket]
    assert np.mean(swapped) == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"salt": "s"}', '{"salt": "s", "buckets": [{"bucket": "5:1:2", "fraction": 1}]}',
     '{"salt": "s", "buckets": [{"bucket": "1:5", "fraction": 0.1, "swapped": 1}]}',
     '{"salt": "s", "buckets": [{"bucket": "1:5", "fraction": null}]}'],
)  # fmt: skip
def test_a_damaged_plan_is_one_line(tmp_path, text):
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(UserError, match=r"plan\.json is not a plan as") as error:
        planned.read_plan(str(file))
    assert "\n" not in str(error.value)


def test_a_missing_plan_is_named(tmp_path):
    with pytest.raises(UserError, match=r"plan_swaps.plan: .*missing\.json does not exist"):
        planned.read_plan(f"{tmp_path}/missing.json")
    with pytest.raises(ValueError, match="negative"):
        load_plan('{"salt": "s", "buckets": [{"bucket": "1:5", "fraction": -1}]}')

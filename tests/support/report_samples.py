"""Facts of a night and of a comparison, with data for every section of the page."""

from __future__ import annotations

from dataclasses import replace

from ulr.report.facts import COMPARE, NIGHT, Facts

HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'&\u202e`"
POSITIONS = 10
SEGMENTS = (None, "desktop", "mobile")
DECIDES = "snips_dcg"


def estimate(subject, name, value, *, against=None, position=None, error=0.01):
    return {"subject": subject, "against": against, "position": position,
            "name": name, "value": value, "standard_error": error, "lower": value - 2 * error,
            "upper": value + 2 * error, "p_value": 0.01 if against else None,
            "queries": 424}  # fmt: skip


def metrics(*subjects):
    """Return metrics in which every subject is a little worse, and the leads of the first."""
    rows = []
    for n, subject in enumerate(subjects):
        values = {DECIDES: 0.8, "snips_mean_relevant_rank": 3.0, "ndcg_at_1": 0.85, "map": 0.9}
        for name, value in values.items():
            rows.append(estimate(subject, name, value * (1 - 0.05 * n)))
            if n:
                lead = value * 0.05 * n
                rows.append(estimate(subjects[0], name, lead, against=subject, error=0.004))
        rows += [estimate(subject, "position_after", k + n / 4, position=k, error=0.1)
                 for k in range(1, POSITIONS + 1)]  # fmt: skip
    return rows


def curve():
    rows = []
    for segment in SEGMENTS:
        power = {None: 1.0, "desktop": 0.8, "mobile": 1.4}[segment]
        for k in range(1, POSITIONS + 1):
            missing = segment == "mobile" and k == POSITIONS
            theta = None if missing else k**-power
            rows.append({
                "segment": segment, "position": k, "theta": theta,
                "standard_error": None if missing else 0.03 * theta,
                "lower": None if missing else theta * (0.9 if k > 1 else 1),
                "upper": None if missing else theta * (1.1 if k > 1 else 1),
                "support": 4000 // k, "estimator": "combined",
                "source": "insufficient" if missing else "estimated",
                "note": "12 clicks of 50 needed" if missing else "",
            })  # fmt: skip
    return rows


def joint():
    return [
        {"segment": None, "k": k, "l": v, "psi": 1 / (k * v), "standard_error": 0.01,
         "lower": 0.8 / (k * v), "upper": 1.2 / (k * v), "support": 900 // (k * v),
         "browsing": "independent", "source": "estimated" if k * v < 13 else "imputed",
         "note": "" if k * v < 13 else "from independent"}
        for k in range(1, POSITIONS + 1) for v in range(k + 1, POSITIONS + 1)
    ]  # fmt: skip


def finding(check, subject, verdict="ok", message="fine", *, segment=None, value=1.0, p=0.5):
    return {"segment": segment, "check": check, "subject": subject, "value": value, "p_value": p,
            "verdict": verdict, "message": message}  # fmt: skip


def diagnostics():
    return [
        finding("components", "all", message="positions {1, 2, 3} are all linked", p=None),
        finding(
            "sample_ratio", "1:5", "warning", "bucket 1:5: 900 pages kept, 500 swapped", p=1e-9
        ),
        finding("untouched", "1:2"),
        finding(
            "intercept",
            "4",
            "warning",
            "position 4: intercept 0.0300 (use `affine`)",
            segment="mobile",
        ),
        finding("browsing", "independent", value=1000.0, p=None),
        finding("browsing", "continuous", value=1912.5, p=None),
    ]


def truth():
    return [{"segment": None, "k": k, "l": v, "psi": 1 / (k * v) if k < v else 1 / k}
            for k in range(1, POSITIONS + 1) for v in range(k, POSITIONS + 1)]  # fmt: skip


def weights():
    numbers = {"effective_pairs": 5000.0, "share_clipped": 0.0, "largest_weight": 80.0,
               "weight": 9000.0}  # fmt: skip
    sizes = {"clicks": 4000.0, "effective_clicks": 2500.0, "effective_queries": 200.0}
    rows = [{"position": None, "name": name, "value": value} for name, value in sizes.items()]
    return rows + [{"position": k, "name": name, "value": value / (k or 1)}
                   for k in (None, *range(1, POSITIONS + 1))
                   for name, value in numbers.items()]  # fmt: skip


def importance(number, name="feature"):
    """Return features of which the n-th has 1 / n of the first one's contribution."""
    features = [
        {"feature": f"{name} {n}", "gain": 100.0 / n, "split": 300 // n, "contribution": 0.5 / n,
         "direction": 0.9}
        for n in range(1, number + 1)
    ]  # fmt: skip
    return {"rows": 2000, "linear": False, "number": number, "gain": 200.0, "features": features}


def training(**more):
    history = [1.0 - 0.5 * n / 300 for n in range(300)]
    return {"trees": 300, "queries": 1500, "rows": 18000, "pairs": 90000, "failures": [],
            "importance": importance(25), "validation": {"pair_loss": history}, "t_plus": None,
            "t_minus": None} | more  # fmt: skip


def day(date, **more):
    return {"date": date, "read": 20_100, "pages": 20_000, "queries": 1800, "groups": 4700,
            "patterns": 9200, "duplicates": 3, "cut": 0, "duplicate_rows": 0} | more  # fmt: skip


def night() -> Facts:
    reasons = [f"{DECIDES} is not worse than the champion's", "diagnostics, warning: bucket 1:5"]
    names = ("groups", "propensities", "pairs", "train", "evaluate", "promote")
    return Facts(
        kind=NIGHT,
        name="2026-01-03",
        window=["2026-01-01", "2026-01-02", "2026-01-03"],
        evaluated_on="2026-01-01..2026-01-03",
        methods=["joint"],
        metric=DECIDES,
        stages=[{"stage": s, "status": "done", "seconds": 3.2, "message": "fine"} for s in names],
        verdict={"outcome": "kept", "version": 3, "champion": 2, "passed": False,
                 "reasons": reasons, "against": reasons[1:]},
        metrics=metrics("joint", "champion", "logging"),
        curve=curve(),
        joint=joint(),
        diagnostics=diagnostics(),
        truth=truth(),
        weights={"joint": weights()},
        trainings={"joint": training()},
        days=[day("2026-01-01"), day("2026-01-02"),
              day("2026-01-03", **{"bad:duplicate_document": 7, "bad:null_query_id": 2})],
        quarantine=[{"date": "2026-01-03", "reason": "duplicate_document", "source": HOSTILE,
                     "row": f'{{"query_id": "{HOSTILE}"}}'}],
        settings={"pairs.method": "joint", "promote.min_effective_clicks": "1000.0",
                  "warehouse.path": HOSTILE},
        changed=["warehouse.path"],
        versions={"ulr": "0.1.0", "lightgbm": "4.7.0"},
    )  # fmt: skip


def comparison() -> Facts:
    order = ("labels", "joint", "unbiased-lambdamart", "naive")
    learned = training(
        t_plus=[1 / k for k in range(1, 11)], t_minus=[1.1 - k / 10 for k in range(1, 11)]
    )
    return replace(
        night(),
        kind=COMPARE,
        name="2026-01-01..2026-01-03",
        methods=list(order),
        metric="ndcg_at_1",
        stages=[],
        verdict=None,
        metrics=[
            *metrics(*order),
            estimate("joint", "ndcg_at_1", 0.04, against="unbiased-lambdamart"),
        ],
        weights={"joint": weights(), "unbiased-lambdamart": weights()},
        trainings={"joint": training(), "unbiased-lambdamart": learned},
    )

"""Promotion in a real SQLite registry, with the comparison given as totals."""

import pyarrow as pa
import pytest

from tests.support.registry_server import (
    WIDTH,
    evaluation,
    free_port,
    local_registry,
    promote_settings,
    submission,
)
from ulr.errors import RegistryUnavailable, UserError
from ulr.evaluation.totals import Totals
from ulr.registry import CHALLENGER, CHAMPION, Registry
from ulr.registry.outbox import queued
from ulr.registry.promotion import promote, roll_back
from ulr.registry.submission import CLICKS
from ulr.warehouse.schema import diagnostics_schema
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

SETTINGS = promote_settings(min_effective_clicks=10, diagnostics="warning")


@pytest.fixture
def warehouse(tmp_path):
    return Warehouse(str(tmp_path / "warehouse"))


@pytest.fixture
def promotion(tmp_path, warehouse):
    registry = local_registry(tmp_path / "mlflow")

    def promoted(fingerprint, gap=0.0, size=100.0, window=None, **options):
        model = submission(fingerprint)
        model.tags["ulr.window"] = window or model.tags["ulr.window"]
        model.metrics[CLICKS] = size
        return promote(registry, warehouse, model, evaluation(gap), SETTINGS,
                       published_propensities=False, **options)  # fmt: skip

    return registry, promoted


def test_the_first_is_promoted_a_better_one_replaces_it_and_a_worse_one_does_not(
    promotion,
):
    registry, promoted = promotion
    assert promoted("a").outcome == "promoted"
    assert promoted("b", gap=+1.0).outcome == "promoted"
    worse = promoted("c", gap=-1.0)
    assert (worse.outcome, worse.version, worse.champion) == ("kept", 3, 2)
    assert registry.version_with_alias(CHAMPION).version == 2
    assert registry.version_with_alias(CHALLENGER).version == 3
    tags = registry.version(3).tags
    assert tags["ulr.verdict"] == "kept"
    assert "snips_dcg is worse than that of the champion" in tags["ulr.reasons"]
    run = registry.client.get_run(registry.version(3).run_id).data
    assert run.tags["ulr.reasons"] == tags["ulr.reasons"]
    assert run.metrics["lead_champion"] == pytest.approx(-1.0, abs=0.01)


def test_small_losses_are_promoted_until_they_add_up_against_the_anchor(promotion, warehouse):
    registry, _ = promotion
    values = {"champion": 1.0, "anchor": 1.0}

    def evaluate(rivals):
        totals = Totals()
        for name in rivals:  # each challenger is 0.4% worse than its champion
            lead = 0.996 * values["champion"] - values[name]
            totals += evaluation(lead)({name: ""})
        return totals

    outcomes = []
    for day in range(1, 4):
        model = submission(f"day {day}")
        model.tags["ulr.window"] = f"2026-01-01..2026-01-{day:02d}"
        model.metrics[CLICKS] = 100.0
        decision = promote(registry, warehouse, model, evaluate, SETTINGS,
                           published_propensities=False)  # fmt: skip
        outcomes.append((decision.outcome, sorted(decision.leads)))
        values["champion"] *= 0.996 if decision.champion and decision.verdict.passed else 1
    assert outcomes == [("promoted", []), ("promoted", ["champion"]),
                        ("kept", ["anchor", "champion"])]  # fmt: skip
    assert (
        "is worse than that of version 1, the champion of 2026-01-01"
        in (decision.verdict.against[0])
    )
    assert registry.version_with_alias(CHAMPION).version == 2


def test_an_anchor_with_other_features_is_named_and_not_compared(promotion, warehouse):
    registry, promoted = promotion
    promoted("a", window="2026-01-01..2026-01-01")
    for name, day in (("b", 2), ("c", 3)):
        wide = submission(name, seed=day, width=WIDTH + 1)
        wide.tags["ulr.window"] = f"2026-01-01..2026-01-{day:02d}"
        wide.metrics[CLICKS] = 100.0
        decision = promote(registry, warehouse, wide, evaluation(0.0), SETTINGS,
                           published_propensities=False,
                           force="a feature more" if name == "b" else None)  # fmt: skip
    assert (decision.outcome, list(decision.leads)) == ("promoted", ["champion"])
    assert any(
        reason.startswith("not compared with version 1, the champion of 2026-01-01: it has")
        for reason in decision.verdict.reasons
    )


def test_promoting_the_same_model_again_changes_nothing(promotion):
    registry, promoted = promotion
    promoted("a")
    assert promoted("a").outcome == "champion"
    promoted("b", gap=-1.0)
    assert promoted("b", gap=-1.0).outcome == "kept"
    assert len(registry.versions()) == 2


def test_a_small_sample_size_blocks_even_the_first_model_and_force_records_its_reason(
    promotion,
):
    registry, promoted = promotion
    assert promoted("a", size=1.0).outcome == "kept"
    assert registry.version_with_alias(CHAMPION) is None
    assert promoted("a", size=1.0, force="first night").outcome == "promoted"
    assert registry.version(1).tags["ulr.reasons"].startswith("forced: first night")


def test_warnings_about_the_published_propensities_block_a_model_that_uses_them(tmp_path):
    registry = local_registry(tmp_path / "mlflow")
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    row = {"segment": None, "check": "arms", "subject": "1:2", "value": 3.0, "p_value": 1e-4,
           "message": "arms of unequal size"}  # fmt: skip
    rows = [row | {"verdict": verdict} for verdict in ("ok", "warning")]
    with warehouse.writing("diagnostics", "", "x") as draft:
        table = pa.Table.from_pylist(rows, schema=diagnostics_schema)
        Storage(draft.url).write_table(table, "part-00000.parquet")
        draft.publish({})
    model = submission("a")
    model.metrics[CLICKS] = 100.0
    for published, outcome in ((True, "kept"), (False, "promoted")):
        decision = promote(registry, warehouse, model, evaluation(0.0), SETTINGS,
                           published_propensities=published)  # fmt: skip
        assert decision.outcome == outcome
        against = ["diagnostics, warning: arms of unequal size"] if published else []
        assert decision.verdict.against == against


def test_a_model_with_other_features_is_not_evaluated_and_only_force_promotes_it(
    promotion, warehouse
):
    registry, promoted = promotion
    promoted("a")
    wide = submission("b", width=WIDTH + 1)
    wide.metrics[CLICKS] = 100.0
    for force, outcome in ((None, "kept"), ("a feature more", "promoted")):
        decision = promote(registry, warehouse, wide, not_called, SETTINGS,
                           published_propensities=False, force=force)  # fmt: skip
        assert decision.outcome == outcome
        assert decision.verdict.against == [
            "it cannot be compared with the champion: it has 5 features, the other 4"
        ]


def not_called(_):
    raise AssertionError


def test_a_dry_run_changes_nothing(promotion):
    registry, promoted = promotion
    promoted("a")
    decision = promoted("b", gap=-1.0, dry_run=True)
    assert (decision.outcome, decision.verdict.passed) == ("dry run", False)
    assert len(registry.versions()) == 1
    assert registry.version_with_alias(CHALLENGER).version == 1


def test_a_dry_run_includes_the_checks_of_past_dates_and_rollbacks(promotion, warehouse):
    registry, promoted = promotion
    promoted("a")
    assert not promoted("b", gap=1.0, window="2025-12-01..2025-12-31", dry_run=True).verdict.passed
    promoted("c", gap=1.0)
    roll_back(registry, warehouse, "complaints")
    assert not promoted("c", gap=1.0, dry_run=True).verdict.passed
    assert promoted("c", gap=1.0, dry_run=True, force="fixed").verdict.passed


def test_an_unreachable_server_leaves_the_model_in_the_outbox_and_the_next_run_registers_it(
    tmp_path, promotion
):
    _, promoted = promotion
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    unreachable = Registry(f"http://127.0.0.1:{free_port()}", experiment="tests", name="ranker",
                           retries=0, backoff=0)  # fmt: skip
    with pytest.raises(RegistryUnavailable, match="ulr registry sync"):
        promote(unreachable, warehouse, submission("a"), evaluation(0.0), SETTINGS,
                published_propensities=False)  # fmt: skip
    assert queued(warehouse) == ["a"]
    assert promoted("b").version == 2  # "a" became version 1 first
    assert queued(warehouse) == []


def test_a_rollback_restores_the_previous_champion_and_blocks_the_model_from_returning(
    promotion, warehouse
):
    registry, promoted = promotion
    with pytest.raises(UserError, match="has no champion"):
        roll_back(registry, warehouse, "x")
    promoted("a")
    with pytest.raises(UserError, match="first champion"):
        roll_back(registry, warehouse, "x")
    promoted("b", gap=1.0)
    assert registry.version(2).tags["ulr.previous_champion"] == "1"
    assert roll_back(registry, warehouse, "complaints") == (2, 1)
    assert registry.version_with_alias(CHAMPION).version == 1
    again = promoted("b", gap=1.0)
    assert again.outcome == "kept"
    assert any("rolled back: complaints" in r for r in again.verdict.against)
    assert promoted("b", gap=1.0, force="fixed").outcome == "promoted"


def test_a_rerun_of_a_past_date_does_not_replace_a_newer_champion(promotion):
    _, promoted = promotion
    promoted("a")
    decision = promoted("b", gap=1.0, window="2025-12-01..2025-12-31")
    assert decision.outcome == "kept"
    reason = "its window ends on 2025-12-31, before the champion's (2026-01-03)"
    assert decision.verdict.against == [reason]


def test_a_metric_that_was_not_computed_is_an_error_that_names_it(promotion, warehouse):
    registry, promoted = promotion
    promoted("a")
    with pytest.raises(UserError, match=r"promote\.metric = 'snips_dcg' was not computed"):
        promote(registry, warehouse, submission("b"), lambda _: Totals(), SETTINGS,
                published_propensities=False)  # fmt: skip


def test_a_champion_that_changed_during_the_evaluation_is_compared_again(promotion, warehouse):
    """Two processes may promote at the same time; the lock is not held while models are scored."""
    registry, promoted = promotion
    promoted("a")
    compared = []

    def evaluate(rivals):
        compared.append(rivals)
        if len(compared) == 1:
            promoted("b", gap=1.0)  # by another process
        return evaluation(-1.0)(rivals)

    model = submission("c")
    model.metrics[CLICKS] = 100.0
    decision = promote(registry, warehouse, model, evaluate, SETTINGS, published_propensities=False)
    assert (decision.outcome, decision.champion, len(compared)) == ("kept", 2, 2)
    assert registry.version_with_alias(CHAMPION).version == 2

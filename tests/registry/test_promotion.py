"""The gate on a real SQLite registry; what judges is given as totals."""

import numpy as np
import pyarrow as pa
import pytest

from tests.support.registry_server import WIDTH, free_port, training
from ulr.config.settings import Promote
from ulr.errors import RegistryUnavailable, UserError
from ulr.evaluation.totals import Column, Totals, total
from ulr.registry import CHALLENGER, CHAMPION, Registry
from ulr.registry.outbox import waiting
from ulr.registry.promotion import PREVIOUS, SAMPLE_SIZE, promote, roll_back
from ulr.warehouse.schema import diagnostics_schema
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

HOW = Promote(metric="snips_dcg", min_effective_sample_size=10, diagnostics="warning")


def judged(gap):
    """Totals whose lead over the champion is `gap`, sure of itself."""
    x = gap + 0.001 * np.cos(np.arange(50))
    columns = [Column("snips_dcg", None, x, np.ones(50))]
    return lambda _: total(columns, "joint", None, against=CHAMPION)


@pytest.fixture
def ways(tmp_path):
    registry = Registry(str(tmp_path / "mlflow"), experiment="tests", name="ranker")
    warehouse = Warehouse(str(tmp_path / "warehouse"))

    def go(fingerprint, gap=0.0, size=100.0, window=None, **options):
        sent = training(fingerprint)
        sent.tags["ulr.window"] = window or sent.tags["ulr.window"]
        sent.metrics[SAMPLE_SIZE] = size
        return promote(registry, warehouse, sent, judged(gap), HOW, method="joint",
                       measured=False, **options)  # fmt: skip

    return registry, go


def test_the_first_is_promoted_a_better_one_replaces_it_and_a_worse_one_does_not(ways):
    registry, go = ways
    assert go("a").outcome == "promoted"
    assert go("b", gap=+1.0).outcome == "promoted"
    refused = go("c", gap=-1.0)
    assert (refused.outcome, refused.version, refused.champion) == ("kept", 3, 2)
    assert registry.holder(CHAMPION).version == 2
    assert registry.holder(CHALLENGER).version == 3
    tags = registry.version(3).tags
    assert tags["ulr.verdict"] == "kept"
    assert "is worse than the champion's" in tags["ulr.reasons"]
    run = registry.client.get_run(registry.version(3).run_id).data
    assert run.tags["ulr.reasons"] == tags["ulr.reasons"]
    assert run.metrics["lead"] == pytest.approx(-1.0, abs=0.01)


def test_the_same_again_changes_nothing(ways):
    registry, go = ways
    go("a")
    assert go("a").outcome == "champion"
    go("b", gap=-1.0)
    assert go("b", gap=-1.0).outcome == "kept"
    assert len(registry.versions()) == 2


def test_thin_weights_are_refused_even_with_nobody_to_beat_and_force_says_why(ways):
    registry, go = ways
    assert go("a", size=1.0).outcome == "kept"
    assert registry.holder(CHAMPION) is None
    assert go("a", size=1.0, force="first night").outcome == "promoted"
    assert registry.version(1).tags["ulr.reasons"].startswith("forced: first night")


def test_what_the_published_diagnostics_warn_of_blocks_a_model_made_with_them(tmp_path):
    registry = Registry(str(tmp_path / "mlflow"), experiment="tests", name="ranker")
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    row = {"segment": None, "check": "arms", "subject": "1:2", "value": 3.0, "p_value": 1e-4,
           "message": "arms of unequal size"}  # fmt: skip
    rows = [row | {"verdict": verdict} for verdict in ("ok", "warning")]
    with warehouse.writing("diagnostics", "", "x") as draft:
        table = pa.Table.from_pylist(rows, schema=diagnostics_schema)
        Storage(draft.url).write_table(table, "part-00000.parquet")
        draft.publish({})
    sent = training("a")
    sent.metrics[SAMPLE_SIZE] = 100.0
    for measured, outcome in ((True, "kept"), (False, "promoted")):
        found = promote(registry, warehouse, sent, judged(0.0), HOW, method="joint",
                        measured=measured)  # fmt: skip
        assert found.outcome == outcome
        against = ["diagnostics, warning: arms of unequal size"] if measured else []
        assert found.verdict.against == against


def test_a_champion_with_other_features_is_no_rival_to_be_measured_by_and_force_replaces_it(ways):
    registry, go = ways
    go("a")
    wide = training("b", width=WIDTH + 1)
    wide.metrics[SAMPLE_SIZE] = 100.0
    for force, outcome in ((None, "kept"), ("a feature more", "promoted")):
        found = promote(registry, Warehouse("unused"), wide, never, HOW, method="joint",
                        measured=False, force=force)  # fmt: skip
        assert found.outcome == outcome
        assert found.verdict.against == [
            "it cannot be compared with the champion: it has 5 features, the other 4"
        ]


def never(_):
    raise AssertionError


def test_a_dry_run_changes_nothing(ways):
    registry, go = ways
    go("a")
    decision = go("b", gap=-1.0, dry_run=True)
    assert (decision.outcome, decision.verdict.passed) == ("dry run", False)
    assert len(registry.versions()) == 1
    assert registry.holder(CHALLENGER).version == 1


def test_a_dry_run_tells_what_the_gate_would_say_of_a_past_date_and_of_what_was_rolled_back(ways):
    registry, go = ways
    go("a")
    assert not go("b", gap=1.0, window="2025-12-01..2025-12-31", dry_run=True).verdict.passed
    go("c", gap=1.0)
    roll_back(registry, "complaints")
    assert not go("c", gap=1.0, dry_run=True).verdict.passed
    assert go("c", gap=1.0, dry_run=True, force="fixed").verdict.passed


def test_a_server_that_is_away_leaves_the_model_in_the_outbox_and_the_next_night_sends_it(
    tmp_path, ways
):
    _, go = ways
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    away = Registry(f"http://127.0.0.1:{free_port()}", experiment="tests", name="ranker",
                    retries=0, backoff=0)  # fmt: skip
    with pytest.raises(RegistryUnavailable, match="ulr registry sync"):
        promote(away, warehouse, training("a"), judged(0.0), HOW, method="joint", measured=False)
    assert waiting(warehouse) == ["a"]
    assert go("b").version == 2  # "a" became version 1 first
    assert waiting(warehouse) == []


def test_rollback_gives_the_alias_back_and_what_was_rolled_back_does_not_return(ways):
    registry, go = ways
    with pytest.raises(UserError, match="has no champion"):
        roll_back(registry, "x")
    go("a")
    with pytest.raises(UserError, match="first champion"):
        roll_back(registry, "x")
    go("b", gap=1.0)
    assert registry.version(2).tags[PREVIOUS] == "1"
    assert roll_back(registry, "complaints") == (2, 1)
    assert registry.holder(CHAMPION).version == 1
    again = go("b", gap=1.0)
    assert again.outcome == "kept"
    assert any("rolled back: complaints" in r for r in again.verdict.against)
    assert go("b", gap=1.0, force="fixed").outcome == "promoted"


def test_a_past_date_that_is_run_again_does_not_replace_a_newer_champion(ways):
    _, go = ways
    go("a")
    found = go("b", gap=1.0, window="2025-12-01..2025-12-31")
    assert found.outcome == "kept"
    assert found.verdict.against == ["its window ends on 2025-12-31, the champion's on 2026-01-03"]


def test_a_metric_that_was_not_measured_is_named(ways):
    registry, go = ways
    go("a")
    with pytest.raises(UserError, match="was not measured"):
        promote(registry, Warehouse("unused"), training("b"), lambda _: Totals(), HOW,
                method="joint", measured=False)  # fmt: skip

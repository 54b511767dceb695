import json

import pytest

from ulr.cli.main import main
from ulr.errors import InvalidData, UserError
from ulr.pipeline import nights
from ulr.pipeline.stage_runner import StageResult, run_stages


def night(*bodies, **options):
    return run_stages("2026-01-01", list(zip("abc", bodies, strict=False)), **options)


def fails(error):
    def body():
        raise error

    return body


def good():
    return StageResult("fine")


def test_every_stage_is_recorded_and_the_last_outcome_is_that_of_the_night():
    summary = night(
        good,
        lambda: StageResult("same", skipped=True),
        lambda: StageResult("yes", outcome="promoted", details={"version": 3}),
    )
    assert [r.status for r in summary.stages] == ["done", "skipped", "done"]
    assert (summary.outcome, summary.exit_code, summary.error) == ("promoted", 0, None)
    assert [s["details"] for s in summary.to_json()["stages"]] == [{}, {}, {"version": 3}]


@pytest.mark.parametrize(
    ("error", "code"), [(UserError("x"), 2), (InvalidData("x"), 3), (ZeroDivisionError("x"), 1)]
)
def test_a_failure_ends_the_night_with_the_exit_code_of_the_error(error, code):
    summary = night(good, fails(error), good)
    assert [r.status for r in summary.stages] == ["done", "failed", "not run"]
    assert (summary.outcome, summary.exit_code, summary.error) == ("failed", code, error)
    assert summary.to_json()["stages"][1]["message"] == "x"


def test_an_error_without_text_is_recorded_by_its_class():
    summary = night(good, fails(StopAsyncIteration()), good)
    assert [r.message for r in summary.stages] == ["fine", "StopAsyncIteration", ""]
    assert summary.exit_code == 1


def test_a_night_can_start_at_a_later_stage():
    summary = night(fails(ZeroDivisionError()), good, from_stage="b")
    assert [r.status for r in summary.stages] == ["not run", "done"]
    with pytest.raises(UserError, match="expected one of a, b"):
        night(good, good, from_stage="z")


def test_a_failed_report_is_in_the_summary(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(nights, "run_stages", lambda *a, **k: night(good))
    monkeypatch.setattr(nights, "report_night", lambda *a: 1 / 0)
    where = ["--date", "2026-01-01", "--set", f"warehouse.path={tmp_path}"]
    assert main(["nightly", *where, "--json"]) == 1
    kept = json.loads((tmp_path / "nights" / "2026-01-01.json").read_text())
    assert json.loads(capsys.readouterr().out) == kept
    assert kept["exit_code"] == 1
    assert "<h1>" in (tmp_path / "reports" / "index.html").read_text()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (StopAsyncIteration(), "StopAsyncIteration"),
        (UserError("http://me:open@host is away\nTraceback"), "http://***@host is away"),
    ],
)
def test_the_message_of_a_failed_stage_is_one_line_without_secrets(error, words):
    assert night(fails(error)).stages[0].message == words

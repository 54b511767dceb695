import json

import pytest

from ulr.cli.main import main
from ulr.errors import InvalidData, UserError
from ulr.pipeline.night import Done, Step, run_night


def night(*bodies, **options):
    return run_night(
        "2026-01-01",
        [Step(name, body) for name, body in zip("abc", bodies, strict=False)],
        **options,
    )


def fails(error):
    def body():
        raise error

    return body


def good():
    return Done("fine")


def test_every_stage_is_told_and_the_last_word_is_the_outcome():
    found = night(
        good,
        lambda: Done("same", skipped=True),
        lambda: Done("yes", outcome="promoted", details={"version": 3}),
    )
    assert [r.status for r in found.stages] == ["done", "skipped", "done"]
    assert (found.outcome, found.exit_code, found.error) == ("promoted", 0, None)
    assert [s["details"] for s in found.to_json()["stages"]] == [{}, {}, {"version": 3}]


@pytest.mark.parametrize(
    ("error", "code"), [(UserError("x"), 2), (InvalidData("x"), 3), (ZeroDivisionError("x"), 1)]
)
def test_a_failure_ends_the_night_with_the_code_that_schedulers_know(error, code):
    found = night(good, fails(error), good)
    assert [r.status for r in found.stages] == ["done", "failed", "not run"]
    assert (found.outcome, found.exit_code, found.error) == ("failed", code, error)
    assert found.to_json()["stages"][1]["message"] == "x"


def test_an_error_without_words_is_told_by_its_name():
    found = night(good, fails(MemoryError()), good)
    assert [r.message for r in found.stages] == ["fine", "MemoryError", ""]
    assert found.exit_code == 1


def test_a_night_can_begin_in_the_middle_and_says_where_it_cannot():
    found = night(fails(ZeroDivisionError()), good, from_stage="b")
    assert [r.status for r in found.stages] == ["not run", "done"]
    with pytest.raises(UserError, match="expected one of a, b"):
        night(good, good, from_stage="z")


def test_a_page_that_cannot_be_made_shows_in_the_summary_that_schedulers_read(
    tmp_path, monkeypatch, capsys
):
    """The process ended with 1 and its summary said 0."""
    monkeypatch.setattr("ulr.cli.commands.nightly.run_night", lambda *a, **k: night(good))
    monkeypatch.setattr("ulr.cli.commands.nightly.report_night", lambda *a: 1 / 0)
    where = ["--date", "2026-01-01", "--set", f"warehouse.path={tmp_path}"]
    assert main(["nightly", *where, "--json"]) == 1
    kept = json.loads((tmp_path / "nights" / "2026-01-01.json").read_text())
    assert json.loads(capsys.readouterr().out) == kept
    assert kept["exit_code"] == 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "MemoryError"),
        (UserError("http://me:open@host is away\nTraceback"), "http://***@host is away"),
    ],
)
def test_what_ended_a_night_is_one_line_that_anybody_may_read(error, words):
    assert night(fails(error)).stages[0].message == words

from __future__ import annotations

import pytest

from ulr.engine.failures import refusal_in, summarize


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("An exception\nTraceback:\n  File x\nulr.training.PeerLost: worker 1 disconnected\n\n",
         "PeerLost: worker 1 disconnected"),
        ("Job aborted.\nValueError: bad\n\tat java.lang.Thread.run\n", "ValueError: bad"),
        ("nothing known", "nothing known"),
    ],
)  # fmt: skip
def test_a_failure_is_summarized_in_one_line(text, reason):
    assert summarize(text) == reason
    assert refusal_in(text) is None


@pytest.mark.parametrize("raised_by", ["ulr.errors.", "PeerLost: worker 1 stopped: "])
def test_a_user_error_of_a_task_keeps_its_message(raised_by):
    text = f"Traceback:\n{raised_by}UserError: rows differ; make them equal\nSQLSTATE: 38000"
    assert refusal_in(text) == "rows differ; make them equal"

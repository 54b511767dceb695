"""Files on the command line that cannot be read or written fail before anything is computed."""

import pytest

from ulr.cli.main import main


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["plan-swaps", "--out", "nowhere/plan.json"], "there is no folder nowhere"),
        (["plan-swaps", "--out", "."], "this is a folder"),
        (["propensities", "--figure", "theta.png"], "written as SVG; end its name in .svg"),
        (["propensities", "--truth", "nothing.parquet"], "nothing.parquet: expected"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_line(tmp_path, monkeypatch, capsys, command, words):
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--date", "2026-01-01"]) == 2
    assert words in capsys.readouterr().err

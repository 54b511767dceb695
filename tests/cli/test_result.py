"""`--result`: the document of `--json` in a file, after success, failure and interruption."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.object_server import s3_server
from ulr.cli import main as cli
from ulr.cli.terminal import CommandResult
from ulr.errors import InvalidData, TemporaryFailure
from ulr.warehouse.storage import Storage


def run(capsys, *argv):
    code = cli.main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def answer(monkeypatch, function):
    monkeypatch.setattr("ulr.cli.commands.config.run", lambda args, settings: function())


def raising(error):
    def function():
        raise error

    return function


def test_the_result_is_the_document_of_json(capsys, tmp_path):
    target = tmp_path / "new folder" / "result.json"
    code, out, _ = run(capsys, "config", "--json", "--result", str(target))
    assert code == 0
    assert target.read_text() == out
    assert run(capsys, "config", f"--result={target.parent}/again.json", "--quiet")[1] == ""
    assert (target.parent / "again.json").read_text() == out
    assert len(list(target.parent.iterdir())) == 2  # no temporary files


@pytest.mark.parametrize("error", [InvalidData("bad rows"), TemporaryFailure("no disk")])
def test_a_failure_is_written_with_its_exit_code(capsys, tmp_path, monkeypatch, error):
    target = tmp_path / "result.json"
    answer(monkeypatch, raising(error))
    code, out, _ = run(capsys, "config", "--json", "--result", str(target))
    assert code == error.exit_code
    assert target.read_text() == out
    assert json.loads(out) == {"error": str(error), "exit_code": error.exit_code}


def test_a_document_of_a_failed_command_keeps_its_content(capsys, tmp_path, monkeypatch):
    target = tmp_path / "result.json"
    answer(monkeypatch, lambda: CommandResult({"nights": [1]}, InvalidData("bad rows")))
    assert run(capsys, "config", "--result", str(target))[0] == 3
    assert json.loads(target.read_text()) == {
        "nights": [1], "error": "bad rows", "exit_code": 3
    }  # fmt: skip
    answer(monkeypatch, lambda: CommandResult([{"check": "java"}], InvalidData("no Java")))
    assert run(capsys, "config", "--result", str(target))[0] == 3
    assert json.loads(target.read_text()) == [{"check": "java"}]


@pytest.mark.parametrize("flags", [["--nosuch"], ["--set", "groups.nosuch=1"]])
@pytest.mark.parametrize("form", ["--result={}", "--result {}"])
def test_a_mistake_on_the_command_line_is_written_too(capsys, tmp_path, flags, form):
    target = tmp_path / "result.json"
    code, _, err = run(capsys, "config", *flags, *form.format(target).split(" "))
    document = json.loads(target.read_text())
    assert (code, document["exit_code"]) == (2, 2)
    assert err == f"ulr: {document['error']}\n"


def test_an_interrupt_is_written(capsys, tmp_path, monkeypatch):
    target = tmp_path / "result.json"
    answer(monkeypatch, raising(KeyboardInterrupt(signal.SIGTERM)))
    code, out, err = run(capsys, "config", "--json", "--result", str(target))
    assert (code, out) == (143, "")
    assert json.loads(target.read_text())["exit_code"] == 143
    assert len(err.splitlines()) == 1


def test_the_result_of_an_earlier_run_is_gone_while_the_command_runs(capsys, tmp_path, monkeypatch):
    target = tmp_path / "result.json"
    target.write_text("old")

    def look():
        assert not target.exists()
        return CommandResult({})

    answer(monkeypatch, look)
    assert run(capsys, "config", "--result", str(target))[0] == 0
    assert json.loads(target.read_text()) == {}


def test_a_place_that_cannot_be_written_is_named_before_the_command_runs(
    capsys, tmp_path, monkeypatch
):
    answer(monkeypatch, lambda: pytest.fail("the command ran"))
    code, _, err = run(capsys, "config", "--result", "s3://bucket")
    assert (code, len(err.splitlines())) == (2, 2)
    assert "names no file" in err
    assert run(capsys, "config", "--result", "ftp://host/result.json")[0] == 2


def test_a_result_that_cannot_be_written_fails_the_command_and_keeps_its_own_code(
    capsys, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("not a folder")
    blocked = str(tmp_path / "file" / "result.json")
    code, _, err = run(capsys, "config", "--quiet", "--result", blocked)
    assert code == 1
    assert "the result was not written" in err
    answer(monkeypatch, raising(InvalidData("bad rows")))
    assert run(capsys, "config", "--result", blocked)[0] != 0


def test_the_result_is_written_to_an_object_store_without_a_secret_on_the_screen(capsys):
    with s3_server() as server:
        options = f"endpoint_override={server}&scheme=http&region=us-east-1"
        folder = f"s3://nobody:open-sesame@bucket/results?{options}&allow_bucket_creation=true"
        url = folder.replace("results?", "results/night.json?")
        code, out, err = run(capsys, "config", "--set", "groups.nosuch=1", "--result", url)
        assert code == 2
        assert Storage(folder).read_json("night.json")["exit_code"] == 2
    assert "open-sesame" not in out + err


def test_the_process_ends_with_the_exit_code_of_the_command(tmp_path):
    """The wheel's script calls `sys.exit(main())`, as `python -m ulr.cli` does."""
    console = Path(sys.executable).with_name("ulr")
    commands = [[sys.executable, "-m", "ulr.cli"], *([[str(console)]] if console.exists() else [])]
    for command in commands:
        for flags, code in (([], 0), (["--set", "groups.nosuch=1"], 2)):
            target = tmp_path / "result.json"
            done = subprocess.run([*command, "config", "--quiet", "--result", str(target), *flags],
                                  capture_output=True, check=False)  # fmt: skip
            assert done.returncode == code
            assert json.loads(target.read_text()).get("exit_code", 0) == code

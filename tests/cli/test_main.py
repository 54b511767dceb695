from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
import yaml

from tests.support.help_examples import examples
from ulr.cli import main as cli
from ulr.config.load import load_settings
from ulr.errors import UserError


def run(capsys, *argv: str) -> tuple[int, str, str]:
    try:
        code = cli.main(argv)
    except SystemExit as exit_:  # argparse's own way out
        code = exit_.code
    out, err = capsys.readouterr()
    return code, out, err


def test_without_arguments_it_prints_the_pipeline_the_stages_and_a_quick_start(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    assert cli.PIPELINE in out
    assert all(f"  {stage} " in out for stage in cli.STAGES)
    begin = [stage for stage, _ in examples(out)]
    assert begin == ["doctor", "simulate", "groups", "nightly", "score"]


@pytest.mark.parametrize("stage", [None, *cli.STAGES])
def test_every_example_of_a_help_text_parses(capsys, stage):
    _, out, _ = run(capsys, *filter(None, [stage]), "--help")
    found = examples(out)
    assert found
    for named, argv in found:
        assert stage in (None, named)
        module = cli.import_module(f"ulr.cli.commands.{named.replace('-', '_')}")
        args = cli._command_parser(named, module).parse_args(argv)
        load_settings(args.conf, args.set)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nosuch"], "invalid choice: 'nosuch'"),
        (["groups"], "arguments are required: --date; see `ulr groups --help`"),
        (["groups", "--date", "2026-01-01", "--nosuch"], "unrecognized arguments: --nosuch"),
        (["groups", "--date", "yesterday"], "expected a date such as"),
        (["groups", "--date", "2026-01-02..2026-01-01"], "ends before it begins"),
        (["config", "--conf", "absent.yaml"], "cannot read settings absent.yaml"),
        (["config", "--set", "groups.nosuch=1"], "unknown key groups.nosuch"),
        (["groups", "--date", "2026-01-01", "--set", "log.path=nowhere"], "no log files"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(capsys, argv, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *argv)
    assert code == 2
    assert out == "" or re.fullmatch(r"engine: local \(.*\)\n", out)  # the choice comes first
    assert words in err
    assert len(err.splitlines()) == 1
    code, out, again = run(capsys, *argv, "--json")
    assert (code, again) == (2, err)
    assert json.loads(out) == {"error": err.removeprefix("ulr: ").rstrip("\n"), "exit_code": 2}


def test_config_prints_the_resolved_settings(capsys):
    code, out, _ = run(capsys, "config", "--set", "groups.partitions=5")
    assert code == 0
    assert yaml.safe_load(out)["groups"]["partitions"] == 5
    code, as_json, _ = run(capsys, "config", "--set", "groups.partitions=5", "--json")
    assert json.loads(as_json)["groups"] == yaml.safe_load(out)["groups"]
    assert run(capsys, "config", "--quiet") == (0, "", "")


def test_with_json_a_mistake_is_one_document(capsys):
    code, out, err = run(capsys, "config", "--json", "--set", "groups.nosuch=1")
    document = json.loads(out)
    assert (code, document["exit_code"]) == (2, 2)
    assert err == f"ulr: {document['error']}\n"


def test_passwords_in_error_messages_are_redacted(capsys, monkeypatch):
    def away(args, settings):
        raise UserError("the registry https://me:open@host:5000 does not answer")

    monkeypatch.setattr("ulr.cli.commands.config.run", away)
    code, out, err = run(capsys, "config", "--json")
    assert (code, err) == (2, "ulr: the registry https://***@host:5000 does not answer\n")
    assert "open" not in out


def test_an_internal_error_is_one_line_with_its_stack_trace_in_the_log(capsys, monkeypatch):
    def broken(args, settings):
        raise ZeroDivisionError("thrown from the worker:\nTraceback\nTypeError: by nothing")

    monkeypatch.setattr("ulr.cli.commands.config.run", broken)
    code, _, err = run(capsys, "config")
    assert code == 1
    assert err.startswith("ulr: unexpected ZeroDivisionError: TypeError: by nothing; try `ulr ")
    log = Path(err.rstrip("\n").rpartition(" ")[2])
    assert "in broken" in log.read_text()
    log.unlink()


def test_an_error_caused_by_an_interrupt_is_reported_as_the_interrupt(capsys, monkeypatch):
    def interrupted(args, settings):
        try:
            raise KeyboardInterrupt(signal.SIGTERM)
        finally:
            raise ConnectionRefusedError("the JVM is gone")

    monkeypatch.setattr("ulr.cli.commands.config.run", interrupted)
    code, out, err = run(capsys, "config", "--json")
    assert (code, out) == (128 + signal.SIGTERM, "")
    assert err.startswith("ulr: interrupted; ")
    assert len(err.splitlines()) == 1


def test_config_hides_secrets(capsys):
    secret = ["spark.hadoop.fs.s3a.secret.key=sesame", "log.path=s3://k:op/en@bucket/log"]
    flags = [word for change in secret for word in ("--set", change)]
    for json_flag in ([], ["--json"]):
        code, out, _ = run(capsys, "config", *flags, *json_flag)
        assert code == 0
        assert "s3://***@bucket/log" in out
        assert "sesame" not in out
        assert "op/en" not in out

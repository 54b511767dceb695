from __future__ import annotations

import shlex

import pytest
import yaml
from pyspark.errors import PythonException

from ulr import cli
from ulr.errors import DataRefused


def run(capsys, *argv: str) -> tuple[int, str, str]:
    try:
        code = cli.main(argv)
    except SystemExit as exit_:  # argparse's own way out
        code = exit_.code
    out, err = capsys.readouterr()
    return code, out, err


def test_alone_it_shows_every_stage_and_where_to_begin(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    assert all(f"  {stage} " in out for stage in cli.STAGES)
    assert "begin with" in out


@pytest.mark.parametrize("stage", cli.STAGES)
def test_the_help_of_every_stage_has_an_example_of_that_stage(capsys, stage):
    code, out, _ = run(capsys, stage, "--help")
    assert code == 0
    example = out.rsplit("example:", 1)[1].split()
    assert example[:2] == ["ulr", stage]


@pytest.mark.parametrize("stage", cli.STAGES)
def test_the_example_of_every_stage_has_only_known_options(stage):
    module = cli.import_module(f"ulr.commands.{stage.replace('-', '_')}")
    options = shlex.split(module.EXAMPLE)[2:]
    cli._stage_parser(stage, module).parse_args(options)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nosuch"], "invalid choice: 'nosuch'"),
        (["groups"], "--date"),
        (["groups", "--date", "yesterday"], "expected a date such as"),
        (["groups", "--date", "2026-01-02..2026-01-01"], "ends before it begins"),
        (["config", "--conf", "absent.yaml"], "cannot read settings absent.yaml"),
        (["config", "--set", "groups.nosuch=1"], "unknown key groups.nosuch"),
        (["groups", "--date", "2026-01-01", "--set", "sessions.path=nowhere"], "no log files"),
    ],
)
def test_a_users_mistake_is_told_without_a_stack_trace_and_exits_with_2(
    capsys, argv, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *argv)
    assert code == 2
    assert words in err
    assert "Traceback" not in err


def test_config_prints_what_a_stage_would_see(capsys):
    code, out, _ = run(capsys, "config", "--set", "groups.partitions=5")
    assert code == 0
    assert yaml.safe_load(out)["groups"]["partitions"] == 5


def test_a_users_mistake_that_a_task_found_is_told_like_any_other(spark):
    def fail(batches):
        raise DataRefused("17 rows of sand")
        yield from batches

    with pytest.raises(PythonException) as error:
        spark.range(1).mapInArrow(fail, "id bigint").collect()
    found = cli.user_error_of_a_task(error.value)
    assert (type(found), str(found)) == (DataRefused, "17 rows of sand")
    assert cli.user_error_of_a_task(ZeroDivisionError("by 0")) is None

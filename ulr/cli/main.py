"""The `ulr` command: `ulr STAGE --conf FILE --set section.key=value`.

A command is a module of `ulr.cli.commands` with EXAMPLE, `configure(parser)` and
`run(args, settings)`, which prints for people and returns a CommandResult for scripts. It is
imported on demand, so `ulr --help` is quick. Options common to all commands are added here.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from ulr.cli.result import clear_result, failure_document, result_of, write_result
from ulr.cli.terminal import on_screen, print_document, print_error
from ulr.config.load import load_settings
from ulr.engine.failures import explain, interrupt_behind, summarize
from ulr.engine.local.server import start_server
from ulr.engine.quiet import SUBMITTED, output_to_log
from ulr.errors import TemporaryFailure, UserError
from ulr.redact import redact_text
from ulr.version import __version__

STAGES = {
    "simulate": "write a click log with known truth, its features and the truth",
    "groups": "reduce a date's click log to click-pattern histograms; bad rows go to quarantine",
    "propensities": "estimate examination by position (theta) and by pair (psi), with intervals",
    "plan-swaps": "design a swap experiment: buckets, duration, cost",
    "pairs": "build weighted pairs from groups, propensities and features",
    "train": "train a LightGBM ranker on the pairs",
    "evaluate": "evaluate models on golden labels and held-out clicks, with intervals",
    "ab": "compare two rankers by the pages that they served: first clicks, ctr, wins by query",
    "judgments": "write the relevance of every shown document, estimated from clicks, as CSV",
    "promote": "compare the model with the champion and promote it if it passes the gate",
    "score": "score a features table with a registered model, ranked per query",
    "export": "write a model for OpenSearch, Elasticsearch, Solr, Vespa or ONNX",
    "registry": "register models in MLflow, send queued ones, list versions",
    "nightly": "run groups to promotion for a date; unchanged stages are skipped",
    "rerun": "train other methods or settings on past dates, from the daily groups",
    "compare": "train several methods on one log and compare them on golden labels",
    "report": "render the page of a night or a comparison",
    "tables": "list the tables; print views of them for DuckDB, Spark, Trino; remove old dates",
    "config": "print the resolved settings",
    "warm-up": "compile the kernels of all stages ahead of the first night",
    "doctor": "check engine, memory, disk, warehouse, log, features, MLflow; a fix for each",
}

# Commands that run no task on an engine, or only if it is asked for.
WITHOUT_TASKS = {"config", "doctor", "export", "plan-swaps", "registry", "report", "tables"}
# What workers need; imported by the process that they are forked from.
PRELOAD = (
    "ulr.clicklog.text",
    "ulr.evaluation.tasks",
    "ulr.groups.tasks",
    "ulr.models.tasks",
    "ulr.pairs.tasks",
    "ulr.propensity.tasks",
    "ulr.training.distributed.driver",
    "ulr.kernels.loaded",
)

FAILURE = TemporaryFailure.exit_code
PIPELINE = "click log -> groups -> propensities -> pairs -> train -> evaluate -> promote -> score"
QUICK_START = """\
quick start, in an empty folder:
  ulr doctor                                  # check this machine
  ulr simulate                                # a click log of three days with known truth
  ulr groups --date 2026-01-01..2026-01-02    # reduce the first two days to click patterns
  ulr nightly --date 2026-01-03               # the third day, from the log to a champion
  ulr score                                   # score every document with the champion

with your own log: --set log.path=FOLDER --set features.path=FOLDER; a table, other names of columns
or User Behavior Insights: `ulr groups --help`; what was found: `ulr doctor --date DATE`
`ulr STAGE --help` describes a stage and gives an example.

exit codes: 0 done; 1 may succeed if run again (a lost worker, a full disk, a held lock, a service
without answer); 2 a setting, option or path is wrong; 3 invalid data; 128 + N ended by signal N"""


class UsageError(UserError):
    """The command line cannot be parsed."""


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise the message with a pointer to --help."""
        raise UsageError(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    An error is one line on stderr: exit code 2 for a mistake of the user, 3 for invalid data, 1
    for everything that may pass if the command is run again.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    parser = _parser()
    try:
        args, rest = parser.parse_known_args(arguments)
        if args.stage is None:
            parser.print_help()
            return 0
        return _command(args.stage, rest)
    except UsageError as error:
        with on_screen("ulr", quiet=False, json="--json" in arguments):
            return _failed(str(error), error.exit_code, result_of(arguments))
    except OSError as error:  # no log can be written
        return _failed(*_describe(error, None), result_of(arguments))
    except KeyboardInterrupt as interrupt:  # exit code as a shell reports a signal
        message = "interrupted; published tables are complete, re-run to continue"
        print_error(message)
        code = 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)
        return _written(result_of(arguments), failure_document(None, message, code), code, None)


def _command(stage: str, rest: list[str]) -> int:
    with output_to_log(stage):
        _handle_sigterm()
        if stage not in WITHOUT_TASKS and SUBMITTED not in os.environ:
            start_server(PRELOAD)
        module = _module_of(stage)
    args = _command_parser(stage, module).parse_args(rest)
    with on_screen(stage, quiet=args.quiet, json=args.json) as log:
        return _run(module, args, log)


def _handle_sigterm() -> None:
    """Raise KeyboardInterrupt on SIGTERM too, so that workers end and files are removed.

    Not under spark-submit, which ends the driver itself.
    """
    if SUBMITTED not in os.environ and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


def _module_of(stage: str) -> ModuleType:
    try:
        return import_module("ulr.cli.commands." + stage.replace("-", "_"))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        raise UsageError(
            f"`ulr {stage}` needs Spark, and pyspark is not installed; run `pip install "
            "'ulr[spark]'`, or submit the job to a cluster"
        ) from None


def _run(module: ModuleType, args: argparse.Namespace, log: Path | None) -> int:
    """Run the command, print its document or one line of error, and return the exit code."""
    document = None
    try:
        clear_result(args.result)
        result = module.run(args, load_settings(args.conf, args.set))
        document = result.document
        if result.error is not None:
            raise result.error
    except Exception as error:
        if interrupt := interrupt_behind(error):
            raise interrupt from None
        message, code = _describe(error, log)
        return _failed(message, code, args.result, document)
    print_document(document)
    return _written(args.result, document, 0, log)


def _failed(message: str, code: int, result: str | None, document: Any = None) -> int:
    """Print the error for people, and a document with it for programs.

    document: of a command that failed after producing one.
    """
    message = redact_text(message)
    document = failure_document(document, message, code)
    print_document(document)
    print_error(message)
    return _written(result, document, code, None)


def _written(result: str | None, document: Any, code: int, log: Path | None) -> int:
    """Write the result, and return the exit code: that of the command, if it failed."""
    try:
        write_result(result, document)
    except Exception as error:
        message, failure = _describe(error, log)
        print_error(f"the result was not written: {redact_text(message)}")
        return code or failure
    return code


def _describe(error: Exception, log: Path | None) -> tuple[str, int]:
    """Return one line and the exit code; write the stack trace of a failure to the log."""
    explained = isinstance(error, TemporaryFailure) and error.__context__ is not None
    if isinstance(error, UserError) and not explained:
        return str(error), error.exit_code
    with contextlib.suppress(OSError):  # the log's own disk may be full
        traceback.print_exception(error)
    see = f"; see {log}" if log else ""
    if (known := explain(error)) is not None:
        return f"{known}{see}", known.exit_code
    reason = summarize(str(error))  # Spark's errors are long
    return f"unexpected {type(error).__name__}: {reason}; try `ulr doctor`{see}", FAILURE


def _parser() -> argparse.ArgumentParser:
    stages = "\n".join(f"  {name:<14}{summary}" for name, summary in STAGES.items())
    parser = Parser(
        prog="ulr",
        description=f"Unbiased learning to rank from click logs.\n\n{PIPELINE}",
        epilog=f"stages:\n{stages}\n\n{QUICK_START}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        usage="ulr STAGE [options]",
    )
    parser.add_argument("stage", nargs="?", choices=STAGES, metavar="STAGE", help="what to run")
    parser.add_argument("--version", action="version", version=f"ulr {__version__}")
    return parser


def _command_parser(stage: str, module: ModuleType) -> argparse.ArgumentParser:
    parser = Parser(
        prog=f"ulr {stage}",
        description=f"{module.__doc__}",
        epilog=f"example:\n  {module.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    parser.add_argument(
        "--conf", action="append", metavar="FILE",
        help="overlay over base.yaml: a file, or local, cluster, demo; ubi for a log of User "
        "Behavior Insights, ubi-feedback for its other events; may be repeated, later ones "
        "override (default: local)",
    )  # fmt: skip
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one setting, as in groups.partitions=16; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--result", metavar="URL", help="write that document to a path or URL, on failure too"
    )
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    return parser

"""The `ulr` command: `ulr STAGE --conf FILE --set section.key=value`.

A stage is a module of `ulr.cli.commands` with EXAMPLE, `configure(parser)` and
`run(args, settings)`,
which says things for people (`ulr.cli.terminal`) and returns its Answer for scripts. It is imported
only when asked for, so `ulr --help` needs no Spark. Options that every stage has are added here.
"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from ulr.cli.terminal import answer, complain, on_screen
from ulr.config.load import load_settings
from ulr.engine.quiet import noise_to_log
from ulr.errors import InvalidData, UserError
from ulr.redact import redact_text
from ulr.version import __version__

STAGES = {
    "simulate": "write a click log with known truth, its features and the truth itself",
    "groups": "reduce a date's click log to click-pattern histograms; bad rows to quarantine",
    "propensities": "estimate examination by position (theta) and by pair (psi), with intervals",
    "plan-swaps": "design a swap experiment: buckets, days until it is precise enough, its cost",
    "pairs": "turn groups, propensities and features into weighted pairs",
    "train": "train a LightGBM ranker on the pairs",
    "evaluate": "judge models by golden labels and held-out clicks, with intervals",
    "promote": "let the model challenge the champion in the registry, with a gate",
    "score": "score a features table with a model of the registry, ranked per query",
    "registry": "send models to the MLflow registry, send those that wait, list versions",
    "nightly": "all of it for one date: groups to promotion, unchanged stages skipped",
    "rerun": "train other methods or settings on past dates, from the daily groups alone",
    "compare": "train several methods on one log and print what each is worth",
    "report": "make the page of a night or a comparison again, and show it",
    "config": "print the resolved settings",
    "doctor": "check Java, Spark, memory, disk, the warehouse and MLflow, and say what mends them",
}

PIPELINE = "click log -> groups -> propensities -> pairs -> train -> evaluate -> promote -> score"
BEGIN = """\
begin here, in an empty folder:
  ulr doctor                                  # is this machine ready?
  ulr simulate                                # three days of a log with known truth
  ulr groups --date 2026-01-01..2026-01-02    # the first two, reduced to click patterns
  ulr nightly --date 2026-01-03               # the third, and all the rest: a model is champion
  ulr score                                   # every document scored by it

with a log of your own: --set log.path=FOLDER --set features.path=FOLDER
`ulr STAGE --help` tells more of a stage, with an example."""


class UsageError(UserError):
    """A command line that is not understood."""


class Parser(argparse.ArgumentParser):
    """One that tells a mistake as stages tell theirs."""

    def error(self, message: str) -> NoReturn:
        """In one line, and where to read more."""
        raise UsageError(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one stage; a user's mistake is one line on stderr and exit code 2 (or 3 for data)."""
    words = sys.argv[1:] if argv is None else list(argv)
    parser = _parser()
    try:
        args, rest = parser.parse_known_args(words)
        if args.stage is None:
            parser.print_help()
            return 0
        return _stage(args.stage, rest)
    except UsageError as why:
        with on_screen("ulr", quiet=False, json="--json" in words):
            return _told(str(why), why.exit_code)
    except KeyboardInterrupt as why:  # as a shell counts a signal's exit code
        complain("interrupted; what is published is whole, run again to go on")
        return 128 + (why.args[0] if why.args else signal.SIGINT)


def _stage(stage: str, rest: list[str]) -> int:
    with noise_to_log(stage):
        module = import_module("ulr.cli.commands." + stage.replace("-", "_"))
    args = _stage_parser(stage, module).parse_args(rest)
    with on_screen(stage, quiet=args.quiet, json=args.json) as log:
        return _run(module, args, log)


def _run(module: ModuleType, args: argparse.Namespace, log: Path | None) -> int:
    """The stage's answer, or one line about why there is none; the exit code."""
    answered = False
    try:
        found = module.run(args, load_settings(args.conf, args.set))
        answer(found.document)
        answered = True
        if found.error is not None:
            raise found.error
    except Exception as error:
        if stopped := interrupt_behind(error):
            raise stopped from None
        known = error if isinstance(error, UserError) else user_error_of_a_task(error)
        if known is None and log is None:
            raise
        told, code = (str(known), known.exit_code) if known else (_unexpected(error, log), 1)
    else:
        return 0
    return _told(redact_text(told), code, answered=answered)  # a scheduler keeps what we say


def _told(words: str, code: int, *, answered: bool = False) -> int:
    """What went wrong: one line for people, one document for a script that has none yet."""
    complain(words)
    if not answered:
        answer({"error": words, "exit_code": code})
    return code


def _unexpected(error: Exception, log: Path) -> str:
    """Nobody's mistake but ours: the stack trace goes to the log."""
    traceback.print_exception(error)
    reason = import_module("ulr.engine.failures").summarize(str(error))  # Spark's are long
    return f"unexpected {type(error).__name__}: {reason}; try `ulr doctor`, and see {log}"


def interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """Blocks that clean up after an interrupt fail where they ask a JVM that has ended."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error


def user_error_of_a_task(error: Exception) -> UserError | None:
    """A user's mistake that only a Spark task could see comes back as text in Spark's own error."""
    for line in reversed(str(error).splitlines()):
        for kind in (InvalidData, UserError):
            name, colon, message = line.partition(": ")
            if colon and name == f"{kind.__module__}.{kind.__name__}":
                return kind(message)
    return None


def _parser() -> argparse.ArgumentParser:
    stages = "\n".join(f"  {name:<14}{summary}" for name, summary in STAGES.items())
    parser = Parser(
        prog="ulr",
        description=f"Unbiased learning to rank from click logs.\n\n{PIPELINE}",
        epilog=f"stages:\n{stages}\n\n{BEGIN}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        usage="ulr STAGE [options]",
    )
    parser.add_argument("stage", nargs="?", choices=STAGES, metavar="STAGE", help="what to run")
    parser.add_argument("--version", action="version", version=f"ulr {__version__}")
    return parser


def _stage_parser(stage: str, module: ModuleType) -> argparse.ArgumentParser:
    parser = Parser(
        prog=f"ulr {stage}",
        description=f"{module.__doc__}",
        epilog=f"example:\n  {module.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    parser.add_argument("--conf", metavar="FILE", help="overlay over base.yaml (default: local)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one setting, as in groups.partitions=16; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="the result as one JSON document")
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")
    return parser

"""The `ulr` command: `ulr STAGE --conf FILE --set section.key=value`.

A stage is a module of `ulr.commands` with EXAMPLE, `configure(parser)` and
`run(args, settings)`. It is imported only when asked for, so `ulr --help` needs no Spark.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from ulr import __version__
from ulr.config import load_settings
from ulr.errors import DataRefused, UserError

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
    "config": "print the resolved settings",
}

PIPELINE = "click log -> sessions -> groups -> propensities -> pairs -> LightGBM -> evaluation"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one stage; a user's mistake is one line on stderr and exit code 2 (or 3 for data)."""
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    if args.stage is None:
        parser.print_help()
        return 0
    module = import_module("ulr.commands." + args.stage.replace("-", "_"))
    try:
        args = _stage_parser(args.stage, module).parse_args(rest)
        module.run(args, load_settings(args.conf, args.set))
    except UserError as error:
        return _refuse(error)
    except Exception as error:
        found = user_error_of_a_task(error)
        if found is None:
            raise
        return _refuse(found)
    except KeyboardInterrupt:
        print("ulr: interrupted; nothing was published", file=sys.stderr)
        return 130
    return 0


def _refuse(error: UserError) -> int:
    print(f"ulr: {error}", file=sys.stderr)
    return error.exit_code


def user_error_of_a_task(error: Exception) -> UserError | None:
    """A user's mistake that only a Spark task could see comes back as text in Spark's own error."""
    for line in reversed(str(error).splitlines()):
        for kind in (DataRefused, UserError):
            name, colon, message = line.partition(": ")
            if colon and name == f"{kind.__module__}.{kind.__name__}":
                return kind(message)
    return None


def _parser() -> argparse.ArgumentParser:
    stages = "\n".join(f"  {name:<14}{summary}" for name, summary in STAGES.items())
    parser = argparse.ArgumentParser(
        prog="ulr",
        description=f"Unbiased learning to rank from click logs.\n\n{PIPELINE}",
        epilog=f"stages:\n{stages}\n\n`ulr STAGE --help` tells more; begin with `ulr simulate`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        usage="ulr STAGE [options]",
    )
    parser.add_argument("stage", nargs="?", choices=STAGES, metavar="STAGE", help="what to run")
    parser.add_argument("--version", action="version", version=f"ulr {__version__}")
    return parser


def _stage_parser(stage: str, module: ModuleType) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Run the campaign: faults and attacks against the real product, and what became of its data.

    python -m tests.bench.faults [--quick] [--only kills,disk] [--seed N] [--json FILE]

The exit code is 1 if anything was lost, hung, executed or crashed. Each such fault is listed with
the options that repeat it. `power` and parts of `disk` mount filesystems and need root.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from tests.bench.faults import report
from tests.bench.faults.campaign import Kind, Outcome, preload, run_kind

KINDS = ("models", "network", "power", "disk", "store", "registry", "logs", "kills")


def main() -> int:
    args = _arguments()
    # An exception, so that processes, mounts and folders are removed.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[3]))
    modules = {name: f"tests.bench.faults.{name}" for name in args.only}
    preload(list(modules.values()))
    started, outcomes = time.monotonic(), []

    def show(outcome: Outcome) -> None:
        result = outcome.result
        print(f"{time.monotonic() - started:6.0f} s  {outcome.kind}/{outcome.name}: "
              f"{result.verdict} in {outcome.seconds:.1f} s; {result.detail}",
              file=sys.stderr, flush=True)  # fmt: skip

    for name in args.only:
        kind: Kind = importlib.import_module(modules[name]).KIND
        outcomes += run_kind(kind, seed=args.seed, quick=args.quick, only=args.fault,
                             jobs=args.jobs, on_outcome=show)  # fmt: skip
    print(report.table(outcomes))
    print(f"{time.monotonic() - started:.0f} s, seed {args.seed}")
    for line in report.notes(outcomes, args.seed):
        print(line)
    if args.json:
        args.json.write_text(json.dumps(report.to_json(outcomes, args.seed), indent=1) + "\n")
    return int(any(map(report.failed, outcomes)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.faults", description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a few faults of each kind")
    parser.add_argument("--only", type=_kinds, default=list(KINDS), metavar="KIND,...",
                        help=f"of {', '.join(KINDS)}")  # fmt: skip
    parser.add_argument("--fault", default="", help="only faults whose name contains this")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=2, help="faults at the same time")
    parser.add_argument("--json", type=Path, help="also write the outcomes to this file")
    return parser.parse_args()


def _kinds(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(KINDS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {KINDS}")
    return names


if __name__ == "__main__":
    sys.exit(main())

"""How well segments are estimated alone, from all traffic, and shrunk (docs/methods.md 3.3).

    python -m tests.bench.segments [--repetitions 200]

Curves are theta = 1 / k times a deviation. A cell has the root mean square errors of log theta at
positions 2 to 10 of the segments alone, of all traffic and of the shrunk segments, and the coverage
of the shrunk segments' 95% intervals.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.support.segment_worlds import exponents, one_outlier, repeat, steps

WORLDS = {
    "equal": (exponents, 0.0),
    "exponents, sd .05": (exponents, 0.05),
    "exponents, sd .1": (exponents, 0.1),
    "exponents, sd .3": (exponents, 0.3),
    "steps, sd .3": (steps, 0.3),
    "one exponent of 1.5": (one_outlier, 0.5),
}
TRAFFIC = {
    "2 equal": [3_000, 3_000],
    "2 unequal": [20_000, 1_000],
    "4": [20_000, 5_000, 1_000, 300],
    "8": [20_000, 9_000, 5_000, 5_000, 2_000, 1_000, 500, 300],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=200)
    repetitions = parser.parse_args().repetitions
    table = Table("curves", *TRAFFIC)
    for name, (world, scale) in WORLDS.items():
        cells = []
        for pages in TRAFFIC.values():
            squares, covered = repeat(world, scale, np.array(pages), repetitions)
            errors = " / ".join(f"{error:.3f}" for error in np.sqrt(squares))
            cells.append(f"{errors}, {covered:.1%}")
        table.add_row(name, *cells)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()

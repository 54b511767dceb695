"""Print the errors of the expected pair weights of every method under every browsing model.

The table of docs/methods.md section 4.9: python -m tests.bench.weight_errors
"""

from __future__ import annotations

import argparse

from tests.support.weight_errors import METHODS, browsing_models, weight_errors
from ulr.simulate.browsing import power_curve

BROWSING = tuple(browsing_models(power_curve(2, 1.0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=20_000_000)
    sessions = parser.parse_args().sessions
    columns = [(name, trust) for trust in (False, True) for name in BROWSING]
    results = {c: weight_errors(c[0], trust=c[1], sessions=sessions) for c in columns}
    print("| method | " + " | ".join(n + (", trust" if t else "") for n, t in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for method in METHODS:
        cells = [results[column][method] for column in columns]
        print(f"| `{method}` | " + " | ".join(f"{d:.3f}, {w:.3f}" for d, w in cells) + " |")


if __name__ == "__main__":
    main()

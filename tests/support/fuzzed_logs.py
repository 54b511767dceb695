"""Click logs with one fault each, by number: the same number writes the same files.

    fault = write_fault(n, folder)   # 0 <= n < FAULTS

Whatever the fault, a run ends with exit code 0, 2 or 3 and one line, without a crash or a hang. If
it publishes, every row is counted: rows read = pages + quarantined + duplicates (`unaccounted`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.fuzzed_parquet import parquet_faults
from tests.support.fuzzed_text import text_faults

EXIT_CODES = (0, 2, 3)
_FAULTS = [*text_faults(), *parquet_faults()]
FAULTS = len(_FAULTS)


@dataclass(frozen=True)
class Fault:
    """A log with a fault.

    settings: changes of `ulr` settings, without log.path. reasons: of the quarantine at least.
    """

    name: str
    settings: list[str]
    exit_codes: tuple[int, ...]
    reasons: frozenset[str]


def write_fault(number: int, folder: Path) -> Fault:
    """Write the log of a fault into a new folder."""
    fault = _FAULTS[number]
    folder.mkdir(parents=True)
    fault.write(folder, random.Random(number))
    settings = [f"log.format={fault.form}", f"log.layout={fault.layout}", "log.max_bad_fraction=1"]
    name = f"{fault.form} {fault.layout}: {fault.name}"
    return Fault(name, settings, EXIT_CODES, frozenset(fault.reasons))


def unaccounted(counts: Mapping[str, int]) -> int:
    """Return how many rows of a log are neither pages, nor quarantined, nor dropped and counted.

    For impressions, `read` counts the assembled pages.
    """
    bad = sum(n for name, n in counts.items() if name.startswith("bad:"))
    return counts["read"] - counts["pages"] - counts["duplicates"] - bad

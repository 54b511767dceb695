"""docs/settings.md is generated from base.yaml, and complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ulr.config.load import default_settings, flat

DOCS = Path(__file__).parents[2] / "docs"


def test_the_committed_page_is_current():
    command = [sys.executable, str(DOCS / "settings.py")]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (DOCS / "settings.md").read_text() == page, "run `make docs` and commit the page"


def test_every_setting_has_its_default_and_a_meaning():
    rows, section = {}, ""
    for line in (DOCS / "settings.md").read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| `"):
            name, default, _, meaning = (c.strip() for c in line.strip("|").split(" | ", 3))
            rows[f"{section}.{name.strip('`')}".lstrip(".")] = (default.strip("`"), meaning)
    assert set(rows) == set(flat(default_settings().model_dump(mode="json")))
    assert [name for name, (default, meaning) in rows.items() if not (default and meaning)] == []

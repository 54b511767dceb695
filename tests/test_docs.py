"""The pages name files that exist and settings that can be set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ulr.config.load import default_settings

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
FOLDERS = ("conf", "docker", "docs", "jobs", "tests", "ulr")
FILES = [p.relative_to(ROOT).as_posix() for name in FOLDERS for p in (ROOT / name).rglob("*.*")]
OLD_NAMES = ROOT / "CHANGELOG.md"  # names what was renamed and removed


def settings_keys() -> set[str]:
    keys: set[str] = set()

    def add(prefix: str, value: object) -> None:
        keys.add(prefix)
        if isinstance(value, dict):
            for name, inner in value.items():
                add(f"{prefix}.{name}", inner)

    for section, values in default_settings().model_dump().items():
        add(section, values)
    return keys


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_to_files(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [t for t in targets if not (page.parent / t).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_named_in_a_page_exist(page):
    text = page.read_text()
    files = set(re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|yaml|html|css))`", text))
    files = {f for f in files if not re.search(r"[A-Z]{4}", f)}  # ROOM, NAME, WAREHOUSE
    missing = [f for f in files if not any(f"/{k}".endswith(f"/{f}") for k in FILES)]
    assert missing == [] or page == OLD_NAMES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_named_in_a_page_exist(page):
    if page == OLD_NAMES:
        pytest.skip("lists old names")
    keys, free = settings_keys(), ("spark", "lightgbm")
    by_name = tuple(f"{key}." for key in ("log.columns", "log.views", "features.keys"))
    sections = {key.partition(".")[0] for key in keys if "." in key} - set(free)
    named = re.findall(
        rf"[`\s(]((?:{'|'.join(sections)})\.[a-z_0-9]+(?:\.[a-z_0-9]+)*)\b", page.read_text()
    )
    files = ("py", "yaml", "md", "json", "txt", "html", "parquet", "svg")
    named = [key for key in named if not key.startswith(by_name)]
    unknown = {k for k in named if k not in keys and k.rpartition(".")[2] not in files}
    assert unknown == set()

from types import SimpleNamespace

import pytest

from ulr.registry.anchor import find_anchor, last_day, window_days
from ulr.registry.client import RegisteredVersion


def version(number, day, previous=None):
    tags = {"ulr.window": f"2026-01-01..{day}"}
    if previous:
        tags["ulr.previous_champion"] = str(previous)
    return RegisteredVersion(number, "", tags)


CHAIN = [
    version(1, "2026-01-01"), version(2, "2026-01-10", 1), version(4, "2026-01-20", 2),
    version(7, "2026-02-01", 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("day", "days", "anchor"),
    [
        ("2026-02-02", 30, 1),  # on 2026-01-03 version 1 was champion
        ("2026-02-10", 30, 2),
        ("2026-02-10", 14, 4),
        ("2026-02-10", 5, 7),
        ("2026-02-10", 365, 1),  # older than the first champion
        ("2026-02-10", 0, 7),
        ("unknown", 30, 7),
    ],
)
def test_the_anchor_is_the_champion_of_that_many_days_before(day, days, anchor):
    registry = SimpleNamespace(versions=lambda: CHAIN)
    assert find_anchor(registry, CHAIN[-1], day, days).version == anchor


def test_a_version_that_was_promoted_twice_or_deleted_ends_the_search():
    twice = [version(1, "2026-01-05", 2), version(2, "2026-01-06", 1)]
    registry = SimpleNamespace(versions=lambda: twice)
    assert find_anchor(registry, twice[1], "2026-01-07", 30).version == 1
    registry = SimpleNamespace(versions=lambda: CHAIN[2:])
    assert find_anchor(registry, CHAIN[-1], "2026-02-02", 30).version == 4


def test_the_window_of_a_version_is_read_from_its_tags():
    assert last_day(CHAIN[1].tags) == "2026-01-10"
    assert window_days(CHAIN[1].tags) == 10
    assert (last_day({}), window_days({})) == ("unknown", None)

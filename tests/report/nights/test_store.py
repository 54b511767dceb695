"""The page over all nights follows the files of the nights, and reads those that changed."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.support.night_history import failed_facts, many_nights, name_of, night_facts
from tests.support.outline import Outline
from tests.support.report_samples import comparison, estimate
from ulr.report.nights.store import read_history, write_index
from ulr.report.store import report_names, store_report
from ulr.warehouse.storage import Storage


@pytest.fixture
def storage(tmp_path):
    return Storage(str(tmp_path))


def store(storage, *every):
    for facts in every:
        store_report(storage, facts)


class Reads:
    """Counts the files of facts that are read."""

    def __init__(self, storage, monkeypatch):
        self.names, read = [], storage.read_json

        def counted(*parts):
            self.names.append(parts[-1].removesuffix(".json"))
            return read(*parts)

        monkeypatch.setattr(storage, "read_json", counted)

    def take(self):
        names, self.names = [n for n in self.names if n != "index"], []
        return names


def test_no_night_gives_no_page(storage):
    assert write_index(storage) is None
    store(storage, comparison())
    assert write_index(storage) is None
    assert report_names(storage) == ["compare-2026-01-01..2026-01-03"]


def test_the_page_is_the_same_from_facts_and_from_rows_and_is_no_report(storage):
    store(storage, *many_nights(12), comparison())
    first = write_index(storage)
    assert storage.read_text("reports", "index.html") == first
    assert write_index(storage) == first
    storage.delete("reports", "index.json")
    assert write_index(storage) == first
    assert "index" not in report_names(storage)
    table = Outline(first).section("nights_table")
    links = [e["href"] for e in Outline(first).find("a") if e["href"].startswith("2026")]
    assert links == [f"{name_of(11)}.html", *(f"{name_of(n)}.html" for n in range(11, -1, -1))]
    assert "compare-2026-01-01..2026-01-03" in table["text"]
    for link in Outline(first).find("a"):
        assert link["href"][0] == "#" or storage.exists("reports", link["href"])


def test_only_facts_that_changed_are_read(storage, monkeypatch):
    store(storage, *many_nights(5))
    reads = Reads(storage, monkeypatch)
    write_index(storage)
    assert sorted(reads.take()) == [name_of(n) for n in range(5)]
    write_index(storage)
    assert reads.take() == []
    store(storage, night_facts(5, "promoted", champion=1), failed_facts(2))
    reads.take()
    write_index(storage)
    assert sorted(reads.take()) == [name_of(2), name_of(5)]
    assert [night.failed for night in read_history(storage).nights] == [
        False, False, True, False, False, False
    ]  # fmt: skip


def test_a_file_of_the_same_size_that_was_replaced_is_read_again(storage):
    store(storage, night_facts(0, "promoted", value=0.5))
    write_index(storage)
    store(storage, night_facts(0, "promoted", value=0.7))
    os.utime(storage.path("reports", f"{name_of(0)}.json"), ns=(1, 1))
    assert read_history(storage).nights[0].values["champion"][0] == 0.7


def test_removed_nights_leave_the_page(storage):
    store(storage, *many_nights(4))
    write_index(storage)
    for kind in ("json", "html"):
        storage.delete("reports", f"{name_of(0)}.{kind}")
    assert name_of(0) not in write_index(storage)
    assert [night.date for night in read_history(storage).nights] == [name_of(n) for n in (1, 2, 3)]


def test_a_summary_without_a_report_is_a_night_without_a_link(storage):
    store(storage, *many_nights(2))
    stages = [{"stage": "groups", "status": "failed", "seconds": 1.0, "message": "a disk is full"}]
    storage.write_json({"date": name_of(2), "stages": stages}, "nights", f"{name_of(2)}.json")
    outline = Outline(write_index(storage))
    assert "groups: a disk is full" in outline.section("nights_table")["text"]
    assert f"{name_of(2)}.html" not in [e["href"] for e in outline.find("a")]
    store(storage, night_facts(2, "kept", champion=1))  # the report takes precedence
    assert read_history(storage).nights[2].outcome == "kept"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"nights": 1}', '{"stages": [{}]}', "null"])
def test_damaged_facts_are_a_night_that_cannot_be_read(storage, content):
    store(storage, *many_nights(3))
    storage.write_text(content, "reports", f"{name_of(1)}.json")
    outline = Outline(write_index(storage))
    assert read_history(storage).nights[1].outcome == "unreadable"
    assert "✕ unreadable" in outline.section("nights_table")["text"]
    assert not outline.missing


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"format": 1, "nights": [{}]}', '{"format": 1}', "null"]
)
def test_a_damaged_file_of_rows_is_built_again(storage, content):
    store(storage, *many_nights(3))
    page = write_index(storage)
    storage.write_text(content, "reports", "index.json")
    assert write_index(storage) == page


def test_after_a_change_of_the_metric_all_nights_show_the_new_one(storage):
    first, second = night_facts(0, "promoted"), night_facts(1, "promoted", champion=1)
    other = [estimate("joint", "ndcg_at_10", 0.9)]
    store(storage, replace(first, metrics=[*first.metrics, *other]))
    write_index(storage)
    store(storage, replace(second, metric="ndcg_at_10", metrics=other))
    write_index(storage)
    nights = read_history(storage).nights
    assert [night.values["champion"][0] for night in nights] == [0.9, 0.9]
    assert read_history(storage).metric == "ndcg_at_10"

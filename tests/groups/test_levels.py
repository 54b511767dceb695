"""Graded feedback from logs of every format and layout to the patterns of its levels."""

from __future__ import annotations

import json
import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.logs import NOON, build, page, rows_of, settings, write_csv, write_json
from ulr.clicklog.conform import conform
from ulr.clicklog.contract import check_pages
from ulr.clicklog.events import Levels
from ulr.errors import UserError
from ulr.groups.histograms import canonical, fold_pages, merge
from ulr.groups.levels import CLICKS, names_in, one_level, schema_with, with_levels
from ulr.warehouse.schema import graded, impression_schema, page_schema, reading

GAINS = {"purchase": 10.0, "click": 1.0, "cart": 3.0}
LEVELS = Levels.of(GAINS)
SETTING = f"log.feedback={json.dumps(GAINS)}"
GRADED = graded(page_schema)
EVENTS = [None, "", "click", "cart", "purchase"]


def grade(event) -> int:
    """Return the level of a document's event, or of several: the highest."""
    if isinstance(event, list):
        return max(map(grade, event), default=0)
    if isinstance(event, int):
        return event
    return {None: 0, "": 0, "click": 1, "cart": 2, "purchase": 3}[event]


def graded_pages(count: int, seed: int, event) -> list[dict]:
    """Return pages with random events; `event` draws that of a document."""
    rng = random.Random(seed)
    rows = [page(number, rng) for number in range(count)]
    return [row | {"feedback": [event(rng) for _ in row["doc_ids"]]} for row in rows]


def expected_histograms(pages: list[dict]) -> dict[tuple, Counter]:
    """Count sessions by group and vector of levels, by a plain loop."""
    groups: dict[tuple, Counter] = {}
    for row in pages:
        arm = row["swapped"] if row["bucket"] is not None else None
        key = (row["query_id"], row["segment"], row["bucket"], arm, tuple(row["doc_ids"]))
        clicks = row.get("clicks") or [False] * len(row["doc_ids"])
        events = row.get("feedback") or [None] * len(row["doc_ids"])
        vector = tuple(max(int(c), grade(e)) for c, e in zip(clicks, events, strict=True))
        groups.setdefault(key, Counter())[vector] += 1
    return groups


def expanded(rows: list[dict], levels: int) -> dict[tuple, Counter]:
    """Return rows of groups as histograms of vectors of levels."""
    groups = {}
    for row in rows:
        n = len(row["doc_ids"])
        width = (n + 63) // 64
        histogram: Counter = Counter()
        for i, count in enumerate(row["counts"]):
            words = row["patterns"][i * width * levels : (i + 1) * width * levels]
            has = [[words[lv * width + k // 64] >> (k % 64) & 1 for k in range(n)]
                   for lv in range(levels)]  # fmt: skip
            histogram[tuple(map(sum, zip(*has, strict=True)))] += count
        key = (row["query_id"], row["segment"], row["bucket"], row["swapped"])
        groups[(*key, tuple(row["doc_ids"]))] = histogram
    return groups


def as_batch(pages: list[dict], schema=GRADED) -> pa.RecordBatch:
    extra = {"source": "log", "problem": None, "raw": None, "repeats": 0}
    rows = pa.RecordBatch.from_pylist([p | extra for p in pages], schema=reading(schema))
    return rows.cast(reading(schema, inside=True))


def fold(pages: list[dict], levels=LEVELS, max_position: int = 50) -> pa.Table:
    checked = check_pages(as_batch(pages), levels)
    assert checked.bad.size == 0, checked.reason
    return canonical(merge([fold_pages(checked, checked.good, max_position)]))


def test_levels_are_in_the_order_of_their_gains():
    assert LEVELS.names == ("click", "cart", "purchase")
    assert (LEVELS.count, LEVELS.click) == (3, 1)
    assert Levels.of({"view": 0.5, "click": 1}).click == 2
    assert Levels.of({"order": 4}).click == 1
    assert (Levels.of({}).count, Levels.of(None).names) == (1, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, 0), ("", 0), ("cart", 2), ("0", 0), ("3", 3), ("2.0", 2), ('["click","purchase"]', 3),
     ("[]", 0), ("[null, 1]", 1), ("wish", 255), ("4", 255), ("-1", 255), ("1.5", 255),
     ('["click","wish"]', 255), ("[", 255), ("[true]", 255), ("nan", 255)],
)  # fmt: skip
def test_a_text_has_the_level_of_its_highest_event(text, expected):
    assert LEVELS.grade(text) == expected


def test_groups_expand_back_to_the_levels_of_their_pages():
    pages = graded_pages(400, 1, lambda rng: rng.choice(EVENTS))
    assert expanded(fold(pages).to_pylist(), 3) == expected_histograms(pages)


def test_pages_of_more_than_64_documents_keep_the_levels_of_all():
    rng = random.Random(2)
    docs = [f"d{i}" for i in range(150)]
    pages = [page(n, rng) | {"query_id": "q", "doc_ids": docs, "bucket": None, "swapped": None,
                             "clicks": [rng.random() < 0.1 for _ in docs],
                             "feedback": rng.choices(EVENTS, k=len(docs))}
             for n in range(9)]  # fmt: skip
    table = fold(pages, max_position=200)
    assert expanded(table.to_pylist(), 3) == expected_histograms(pages)


def test_clicks_or_feedback_may_be_missing_and_an_empty_list_has_no_event():
    pages = [row | change for row, change in zip(
        graded_pages(6, 3, lambda rng: rng.choice(EVENTS)),
        [{"clicks": None}, {"feedback": None}, {"feedback": []}] * 2, strict=True)]  # fmt: skip
    assert expanded(fold(pages).to_pylist(), 3) == expected_histograms(pages)


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"feedback": ["click"]}, "length_mismatch"), ({"clicks": [True]}, "length_mismatch"),
     ({"clicks": None, "feedback": None}, "null_clicks"),
     ({"feedback": ["click", "wish"]}, "unknown_event"),
     ({"feedback": ["4", None]}, "unknown_event"),
     ({"clicks": [None, True]}, "null_click")],
)  # fmt: skip
def test_a_page_with_wrong_feedback_is_quarantined(change, reason):
    good = graded_pages(1, 4, lambda rng: "click")[0]
    good |= {"doc_ids": ["a", "b"], "clicks": [False, True], "feedback": [None, "cart"],
             "bucket": None, "swapped": None}  # fmt: skip
    checked = check_pages(as_batch([good, good | change]), LEVELS)
    assert checked.reason.to_pylist() == [None, reason]


def test_plain_clicks_and_one_named_level_give_the_same_groups():
    pages = graded_pages(300, 5, lambda rng: None)
    plain = [{n: v for n, v in row.items() if n != "feedback"} for row in pages]
    checked = check_pages(as_batch(plain, page_schema))
    expected = canonical(merge([fold_pages(checked, checked.good, 50)]))
    assert fold(pages, Levels.of({"click": 1})).equals(expected)
    assert schema_with(("click",)).equals(schema_with(()), check_metadata=True)


def test_levels_are_selected_and_padded_by_name():
    pages = graded_pages(300, 6, lambda rng: rng.choice(EVENTS))
    table = fold(pages)

    def vectors(wanted):
        rows = with_levels(table, LEVELS.names, wanted).to_pylist()
        return expanded(rows, len(wanted))

    def mapped(function):
        return {
            key: sum((Counter({tuple(map(function, v)): n}) for v, n in h.items()), Counter())
            for key, h in expected_histograms(pages).items()
        }

    assert vectors(("click", "purchase")) == mapped(lambda y: (0, 1, 1, 2)[y])
    assert vectors(("click", "view", "cart", "purchase", "gift")) == mapped(
        lambda y: (0, 1, 3, 4)[y]
    )
    (batch,) = table.combine_chunks().to_batches()

    def only(*events):
        return expanded(one_level(batch, LEVELS.names, events).to_pylist(), 1)

    assert only("cart", "purchase") == mapped(lambda y: int(y > 1))
    assert only("gift") == mapped(lambda y: 0)
    assert expanded(one_level(batch, LEVELS.names).to_pylist(), 1) == mapped(lambda y: int(y > 0))


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [(pa.dictionary(pa.int32(), pa.string()), ["click", None], ["click", None]),
     (pa.large_string(), ["click", "cart"], ["click", "cart"]),
     (pa.int8(), [0, 3], ["0", "3"]), (pa.float64(), [2.0, float("nan")], ["2", None]),
     (pa.decimal128(5, 0), [2, None], ["2", None]), (pa.null(), [None, None], [None, None]),
     (pa.list_(pa.string()), [["cart", 'a"b'], []], ['["cart","a\\"b"]', None]),
     (pa.large_list(pa.int32()), [[1, 2], None], ['["1","2"]', None])],
    ids=str,
)  # fmt: skip
def test_columns_of_any_type_are_texts_of_events(kind, values, expected):
    one = pa.array(values, kind)
    rows = {"session_id": ["s", "t"], "feedback": one}
    impressions = conform(pa.RecordBatch.from_pydict(rows), "log", graded(impression_schema))
    assert impressions["feedback"].to_pylist() == expected
    for large in (pa.list_, pa.large_list):
        lists = pa.array([values, None, []], large(one.type if pa.types.is_null(kind) else kind))
        pages = conform(pa.RecordBatch.from_pydict({"feedback": lists}), "log", GRADED)
        assert pages["feedback"].to_pylist() == [expected, None, []]
        assert pages["problem"].null_count == 3
        sliced = conform(pa.RecordBatch.from_pydict({"feedback": lists.slice(1)}), "log", GRADED)
        assert sliced["feedback"].to_pylist() == [None, []]


def test_a_column_that_can_hold_no_events_is_a_bad_type():
    wrong = pa.array([[{"a": 1}], None])
    pages = conform(pa.RecordBatch.from_pydict({"feedback": wrong}), "log", GRADED)
    assert pages["problem"].to_pylist() == ["bad_type", None]


@pytest.mark.parametrize("gains", ["{click: 1, cart: 1}", "{2: 1}", "{'[x': 1}", "{click: 0}"])
def test_gains_that_give_no_levels_are_one_line(tmp_path, gains):
    with pytest.raises(UserError, match="feedback"):
        settings(tmp_path, f"log.feedback={gains}")


KINDS = {
    "names": lambda rng: rng.choice(EVENTS),
    "several": lambda rng: rng.choices(EVENTS[2:], k=rng.randint(0, 3)),
    "numbers": lambda rng: rng.randint(0, 3),
}


def write_log(folder, rows, form, kind):
    if form == "json":
        return write_json(folder, rows)
    if form == "csv":
        numbers = [{n: str(v) for n, v in row.items() if type(v) is int} for row in rows]
        return write_csv(folder, [row | own for row, own in zip(rows, numbers, strict=True)])
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist([{n: v for n, v in r.items() if n != "feedback"} for r in rows])
    table = table.append_column("feedback", pa.array([r["feedback"] for r in rows]))
    pq.write_table(table, folder / "log.parquet")
    return folder


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
@pytest.mark.parametrize("layout", ["page", "impression"])
def test_every_format_and_layout_gives_the_same_groups(engine, tmp_path, form, layout, kind):
    pages = graded_pages(120, 7, KINDS[kind])
    pages = [row | {"shown_at": NOON} for row in pages]
    if kind == "numbers":
        pages = [{n: v for n, v in row.items() if n != "clicks"} for row in pages]
    wrong = pages[0] | {"session_id": "wrong", "doc_ids": ["a", "b"], "feedback": ["wish", "click"],
                        "bucket": None, "swapped": None}  # fmt: skip
    short = wrong | {"session_id": "short", "feedback": ["click"]}
    if kind == "several":
        wrong, short = wrong | {"feedback": [["wish"], []]}, short | {"feedback": [["click"]]}
    if kind == "numbers":
        wrong, short = wrong | {"feedback": [9, 0]}, short | {"feedback": [1]}
    broken = [
        row | ({"clicks": [True, False]} if "clicks" in row else {}) for row in (wrong, short)
    ]
    rows, reasons = [*pages, *broken], ["length_mismatch", "unknown_event"]
    if layout == "impression":
        rows, reasons = [], ["unknown_event"]
        for row in [*pages, broken[0]]:
            for at, doc in enumerate(row["doc_ids"]):
                own = {n: v for n, v in row.items() if n not in ("doc_ids", "clicks", "feedback")}
                own |= {"doc_id": doc, "position": at + 1, "feedback": row["feedback"][at]}
                rows.append(own | ({"clicked": row["clicks"][at]} if "clicks" in row else {}))
    log = write_log(tmp_path / "log", rows, form, kind)
    build(engine, tmp_path / "out", log, SETTING, f"log.format={form}", f"log.layout={layout}")
    assert expanded(rows_of(tmp_path / "out", "groups"), 3) == expected_histograms(pages)
    quarantined = rows_of(tmp_path / "out", "quarantine")
    assert sorted(row["reason"] for row in quarantined) == reasons
    named = next(row for row in quarantined if row["reason"] == "unknown_event")
    assert any(event in str(named["feedback"]) for event in ("wish", "9"))


def test_files_name_their_levels_and_repeated_sessions_are_subtracted(engine, tmp_path):
    pages = graded_pages(50, 8, lambda rng: rng.choice(EVENTS))
    log = write_log(tmp_path / "log", [*pages, *pages[:9]], "parquet", "names")
    outcome = build(engine, tmp_path / "out", log, SETTING)
    assert outcome.manifest.counts["duplicates"] == 9
    assert expanded(rows_of(tmp_path / "out", "groups"), 3) == expected_histograms(pages)
    for file in (tmp_path / "out" / "groups").rglob("*.parquet"):
        assert names_in(pq.read_schema(file)) == ("click", "cart", "purchase")
    assert outcome.manifest.settings["levels"] == ["click", "cart", "purchase"]
    regained = build(engine, tmp_path / "out", log, "log.feedback={click: 2, cart: 4, purchase: 5}")
    assert regained.skipped  # gains are not in the groups


def test_one_level_gives_the_bytes_of_a_click_log(engine, tmp_path):
    rows = graded_pages(200, 9, lambda rng: None)
    log = write_log(tmp_path / "log", rows, "parquet", "names")
    build(engine, tmp_path / "plain", log)
    build(engine, tmp_path / "named", log, "log.feedback={click: 1}")
    plain, named = (
        [f.read_bytes() for f in sorted((tmp_path / n / "groups").rglob("*.parquet"))]
        for n in ("plain", "named")
    )
    assert plain
    assert plain == named
    assert names_in(pq.read_schema(next((tmp_path / "plain").rglob("part*.parquet")))) == CLICKS

"""Events beyond clicks of a simulated log, with known probabilities.

The probability of an event on a clicked document is that of the settings times the relevance of the
document's label. Of several events, a document gets the rarest one: events are nested.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ulr.engine.columns import list_array
from ulr.simulate.traffic import Pages
from ulr.warehouse.schema import graded, page_schema


def draw_events(
    rng: np.random.Generator, pages: Pages, relevance: np.ndarray, chances: Mapping[str, float]
) -> pa.Array:
    """Return the rarest event of each document of each page, null for none: list of string.

    relevance: float64, by row of the catalogue. chances: P(event | click, relevance 1) by event.
    """
    present = pages.documents >= 0
    documents, clicked = pages.documents[present], pages.clicks[present]
    draw = rng.random(documents.size)
    names = sorted(chances, key=lambda name: -chances[name])
    event = np.zeros(documents.size, np.int64)
    for number, name in enumerate(names, start=1):
        event[clicked & (draw < chances[name] * relevance[documents])] = number
    codes = pa.array(event - 1, pa.int32(), mask=event == 0)
    texts = pa.DictionaryArray.from_arrays(codes, pa.array(names)).dictionary_decode()
    return list_array(present.sum(axis=1), texts)


def with_feedback(pages: pa.Table, events: pa.Array) -> pa.Table:
    """Return pages with the column `feedback`."""
    return pa.table([*pages.columns, events], schema=graded(page_schema))

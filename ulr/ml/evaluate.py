"""`ulr.evaluate`: rankings on clicks and golden labels, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from ulr.config.load import default_settings
from ulr.config.settings import Evaluate
from ulr.engine.columns import hashes, list_array
from ulr.errors import UserError
from ulr.evaluation.metrics import LOGGING, EvaluationPlan
from ulr.evaluation.stage import evaluate_models
from ulr.evaluation.totals import metrics_table
from ulr.features.files import find_features
from ulr.features.stage import WindowInputs, gather_window
from ulr.kernels.merge import group_keys
from ulr.ml.documents import IDS, read_documents, read_ids
from ulr.ml.frames import like, to_numbers, to_table
from ulr.ml.given import as_examination
from ulr.ml.pages import read_pages
from ulr.ml.workspace import workspace
from ulr.models.booster import load_scorer
from ulr.models.check import read_checked
from ulr.pairs.gains import increments_of
from ulr.warehouse.schema import features_schema


class _Scores(NamedTuple):
    """Scores (float64) of the documents in the rows of names: query_id, doc_id, label."""

    names: pa.Table
    values: np.ndarray


def evaluate(
    pages: Any,
    rankings: Any,
    propensities: Any,
    *,
    features: Any = None,
    labels: Any = None,
    test_fraction: float = 0.0,
    sigmoid: float = 1.0,
    feedback: Mapping[str, float] | None = None,
    **settings: Any,
) -> Any:
    """Return the metrics of rankings with 95% intervals, as a frame of the kind of the pages.

    pages: as for ulr.propensities. rankings: one, or a mapping of names to several. A ranking is a
    frame with query_id, doc_id and score (or rank), or a model: anything with `predict`, or the
    path of a LightGBM model; models need `features`, a frame with query_id, doc_id and the
    features. propensities: as for Ranker; intervals contain their errors if they have any.

    The rows are those of the table `metrics` (docs/methods.md section 7): IPS and SNIPS estimates
    from the clicks, and NDCG, MAP and so on for documents with a golden `label` in features, in a
    frame of scores or in `labels`. Every ranking is compared with every other and with the logged
    one (`against`, with a p-value). test_fraction: only the queries that the service holds out by
    the hash of their id. feedback: gains of the events in the column feedback of the pages; metrics
    are then those of expected gain. settings: of the section evaluate, such as weights="policy".
    """
    defaults = default_settings()
    own = _merged(defaults.evaluate, settings)
    named = dict(rankings) if _is_named(rankings) else {"ranking": rankings}
    if LOGGING in named:
        raise UserError(f"a ranking is named {LOGGING}, the name of the logged one; use another")
    names, scores = _score(named, features, labels)
    examination = as_examination(propensities)
    with workspace() as work:
        dates = read_pages(work, pages, defaults, feedback=feedback)
        path = work.write(_with_scores(names, scores), "scores", "part-00000.parquet")
        inputs = WindowInputs(work.warehouse, dates, find_features(path), use="test")
        plan = EvaluationPlan(
            own,
            *examination,
            sigmoid,
            list(combinations(named, 2)),
            increments_of(feedback or {}, inputs.levels),
        )
        totals = evaluate_models(
            work.engine,
            gather_window(work.engine, inputs),
            {name: ScoreColumn(number) for number, name in enumerate(scores)},
            plan,
            split="test" if test_fraction else "all",
            test_fraction=test_fraction,
        )
    if not totals.sums:
        raise UserError(f"no query is held out with test_fraction={test_fraction:g}")
    return like(pages, metrics_table(totals))


@dataclass(frozen=True)
class ScoreColumn:
    """Reads scores from features that hold the bits of float64 scores, two for each ranking."""

    number: int

    def __call__(self, matrix: np.ndarray) -> np.ndarray:
        """Return the scores of the rows of a matrix (float32)."""
        bits = np.ascontiguousarray(matrix[:, 2 * self.number : 2 * self.number + 2])
        scores: np.ndarray = bits.view(np.float64)[:, 0]
        return scores


def _with_scores(names: pa.Table, scores: Mapping[str, np.ndarray]) -> pa.Table:
    """Return `features_schema` with the bits of the scores as features."""
    matrix = np.stack([np.ascontiguousarray(values, np.float64) for values in scores.values()], 1)
    bits = np.ascontiguousarray(matrix).view(np.float32)
    column = list_array(np.full(len(bits), bits.shape[1]), pa.array(bits.reshape(-1)))
    return names.append_column("features", column).select(features_schema.names)


def _is_named(rankings: Any) -> bool:
    """Return whether this maps names to rankings; a mapping of columns is one ranking."""
    return isinstance(rankings, Mapping) and "doc_id" not in rankings


def _merged(defaults: Evaluate, changes: Mapping[str, Any]) -> Evaluate:
    try:
        return Evaluate.model_validate({**defaults.model_dump(), **changes})
    except ValidationError as error:
        problem = error.errors()[0]
        name = ".".join(map(str, problem["loc"]))
        raise UserError(f"{name} = {problem['input']!r}: {problem['msg'].lower()}") from None


def _score(
    rankings: Mapping[str, Any], features: Any, labels: Any
) -> tuple[pa.Table, dict[str, np.ndarray]]:
    """Return the documents that every ranking has a score for, and their scores by ranking."""
    documents = None if features is None else read_documents(features, "features")
    scores = {}
    for name, ranking in rankings.items():
        if hasattr(ranking, "predict") or isinstance(ranking, str | Path):
            if documents is None:
                raise UserError(f"ranking {name} is a model; give features with query_id, doc_id")
            known, rows = documents
            values = np.concatenate([_predict(ranking, name)(block) for block in rows.blocks()])
            scores[name] = _Scores(known, np.asarray(values, float))
        else:
            scores[name] = _of_frame(ranking, name)
    return _common(list(scores), list(scores.values()), labels)


def _predict(model: Any, name: str) -> Any:
    if isinstance(model, str | Path):
        try:
            content = Path(model).read_bytes()
        except OSError as error:
            raise UserError(f"ranking {name}: cannot read {model}: {error.strerror}") from None
        return load_scorer(read_checked(content, str(model)), name)
    return model.predict


def _of_frame(ranking: Any, name: str) -> _Scores:
    table = to_table(ranking, f"ranking {name}")
    names = read_ids(table, f"ranking {name}")
    column = next((c for c in ("score", "prediction", "rank") if c in table.column_names), None)
    if column is None:
        raise UserError(f"ranking {name} has no column score or rank")
    values = to_numbers(table[column], f"ranking {name}: {column}", table.num_rows).astype(float)
    return _Scores(names, -values if column == "rank" else values)


def _common(
    names: list[str], scores: list[_Scores], labels: Any
) -> tuple[pa.Table, dict[str, np.ndarray]]:
    """Join the rankings by document; of several rows of one document the first counts."""
    tables = [own.names for own in scores]
    if labels is not None:
        tables.append(read_ids(to_table(labels, "labels"), "labels"))
    query = np.concatenate([hashes(table["query_id"]) for table in tables])
    document = np.concatenate([hashes(table["doc_id"]) for table in tables])
    number, first = group_keys(query, document)
    values = np.full((len(scores), first.size), np.nan)
    label = np.full(first.size, -1)
    start = 0
    for n, table in enumerate(tables):
        own = number[start : start + table.num_rows]
        backwards = slice(None, None, -1)
        if n < len(scores):
            values[n, own[backwards]] = scores[n].values[backwards]
        given = table["label"].fill_null(-1).to_numpy()
        known = np.flatnonzero(given >= 0)[backwards]
        label[own[known]] = given[known]
        start += table.num_rows
    kept = np.flatnonzero(~np.isnan(values).any(axis=0))
    every = pa.concat_tables([table.select(list(IDS)) for table in tables])
    documents = every.take(pa.array(first[kept]))
    column = pa.array(label[kept].astype(np.int32), mask=label[kept] < 0)
    return documents.append_column("label", column), dict(zip(names, values[:, kept], strict=True))

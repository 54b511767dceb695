"""`Ranker`: unbiased learning to rank from sessions in memory, with LGBMRanker's conventions.

    ranker = Ranker(method="joint", propensities=theta, num_leaves=31)
    ranker.fit(X, clicks, group=sizes, position=position, query=query, doc=doc)
    scores = ranker.predict(X_new)

One row is a document that a session showed. Sessions are aggregated first: the time of training
depends on the distinct rankings, not on the number of sessions. The stages of the service do the
work, on the local engine and in a temporary folder. Training runs in a process of its own.
"""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from ulr.clicklog.quarantine import reasons_in
from ulr.config.load import default_settings
from ulr.config.settings import Settings
from ulr.errors import InvalidData, UserError
from ulr.features.layout import valid_names
from ulr.ml.feature_rows import FeatureRows, feature_rows
from ulr.ml.fit_arguments import read_fit_arguments
from ulr.ml.given import examination_for
from ulr.ml.pages import groups_of, lenient
from ulr.ml.parameters import merged_settings
from ulr.ml.shown import invalid_sessions
from ulr.ml.training_data import DATE, SessionFiles, Sessions, read_sessions, write_sessions
from ulr.ml.workspace import Workspace, workspace
from ulr.pairs.stage import build_pairs
from ulr.pairs.weightings import CLICK_MODEL, training_columns, validation_columns
from ulr.pairs.weights import LABELS
from ulr.propensity.examination import BySegment, Examination
from ulr.training.distributed.driver import DistributedOptions, train_on_ranks
from ulr.training.distributed.pair_files import PairFiles
from ulr.training.plan import plan_from_settings
from ulr.training.trained import TrainedRanker


class UnbiasedWarning(UserWarning):
    """A doubt about the data or the model."""


class Ranker(BaseEstimator):
    """A ranking model trained on the clicks of sessions, corrected for examination by position.

    method: auto, joint, robust, ... as the setting pairs.method. propensities: theta by position,
    a frame, a file, or the result of ulr.propensities; methods that need none may leave it out.

    Parameters of LightGBM have LGBMRanker's names, and any other parameter of LightGBM may be given
    by name. The rest are settings of `ulr` by name (docs/settings.md): sections groups, pairs and
    train. None is the setting's default, which is that of the service.

    early_stopping_rounds: iterations without improvement before training stops, with the sessions
    of eval_set, or else of a fraction of the queries, validation_fraction. None: 50 with
    propensities, else 0 (never). test_fraction: queries left out by the hash of their id, as
    the service does, to be evaluated on.

    Attributes after fit: booster_, best_iteration_, best_score_, history_ (a validation value per
    iteration), biases_ (t_plus and t_minus, or position_bias), choice_ (of method auto),
    feature_importances_, feature_name_, n_features_in_, feature_names_in_.
    """

    def __init__(
        self,
        method: str = "auto",
        propensities: Any = None,
        *,
        num_leaves: int | str | None = None,
        max_depth: int | None = None,
        learning_rate: float | None = None,
        n_estimators: int | None = None,
        min_child_samples: int | None = None,
        min_child_weight: float | None = None,
        min_split_gain: float | None = None,
        subsample: float | None = None,
        subsample_freq: int | None = None,
        colsample_bytree: float | None = None,
        reg_alpha: float | None = None,
        reg_lambda: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        importance_type: str = "split",
        objective: str | None = None,
        ranker: str | None = None,
        early_stopping_rounds: int | None = None,
        early_stopping_metric: str | None = None,
        validation_fraction: float | None = None,
        test_fraction: float = 0.0,
        max_position: int | None = None,
        grouping: str | None = None,
        session_weight: str | None = None,
        precision: bool | None = None,
        saturation: float | None = None,
        co_click_variance: float | str | None = None,
        propensity_floor: float | None = None,
        weight_cap: float | None = None,
        prs_clip: float | None = None,
        nonnegative_weights: bool | None = None,
        linear_loss: str | None = None,
        l2: float | None = None,
        bias_regularization: float | None = None,
        bias_rounds: int | None = None,
        fixed_click_bias: bool | None = None,
        position_bins: int | None = None,
        **kwargs: Any,
    ) -> None:
        for name in _parameter_names():
            setattr(self, name, locals()[name])
        self._other_params: dict[str, Any] = {}
        self.set_params(**kwargs)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters, also those of LightGBM that were given by name."""
        return {**super().get_params(deep=deep), **self._other_params}

    def set_params(self, **params: Any) -> Ranker:
        """Set parameters; names that are not the class's own are LightGBM's."""
        own = _parameter_names()
        for name, value in params.items():
            setattr(self, name, value)
            if name not in own:
                self._other_params[name] = value
        return self

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        clicks: Any,
        *,
        group: Any = None,
        qid: Any = None,
        position: Any = None,
        query: Any = None,
        doc: Any = None,
        segment: Any = None,
        eval_set: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        eval_position: Any = None,
        eval_query: Any = None,
        eval_doc: Any = None,
        eval_segment: Any = None,
        feature_name: Any = "auto",
        **lightgbm_arguments: Any,
    ) -> Ranker:
        """Train on sessions; one row of X is a document that a session showed.

        X: numpy, pandas, polars or Arrow. clicks: 0 or 1 per row (golden labels with method
        labels). group: rows of each session, in order, as in LGBMRanker; or qid: the id of each
        row's session, as in XGBRanker. position: where the row was shown, from 1; without it, the
        rows of a session are in displayed order.

        query, doc: ids per row. A query's documents are counted once, and their features are those
        of the first row. Without doc, documents are the same if their features are. Without query,
        sessions that showed the same set of documents have one query; a document is then known by
        its features, too. segment: of the session, with its own propensities.

        eval_set: one pair (X, clicks) for early stopping, or a list with one, and eval_group and so
        on as above. Of LGBMRanker's other arguments, callbacks takes early_stopping; those that
        have no meaning here raise an error that names what to use instead.
        """
        rounds = read_fit_arguments(lightgbm_arguments)
        labels = self.method == LABELS
        sessions = read_sessions(
            X, clicks, group=group, qid=qid, position=position, query=query, doc=doc,
            segment=segment, labels=labels,
        )  # fmt: skip
        held_out = None
        if (pair := _single(eval_set, "eval_set")) is not None:
            given = {"group": eval_group, "qid": eval_qid, "position": eval_position,
                     "query": eval_query, "doc": eval_doc, "segment": eval_segment}  # fmt: skip
            own = {name: _single(value, f"eval_{name}") for name, value in given.items()}
            held_out = read_sessions(pair[0], pair[1], **own, labels=labels, prefix="eval_")
            _check_width(held_out.features, sessions.features, "eval_set")
        self._train(sessions, held_out, feature_name, rounds)
        return self

    def predict(
        self,
        X: Any,  # noqa: N803
        raw_score: bool = False,
        num_iteration: int | None = None,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
    ) -> np.ndarray:
        """Return a score per row, higher is better; options are those of LGBMRanker.predict."""
        self._check_fitted()
        rows = feature_rows(X)
        self._check_features(rows)
        threads = max(self.n_jobs or 0, 0)
        parts = [
            np.asarray(
                self._booster.predict(
                    block, raw_score=raw_score, num_iteration=num_iteration, pred_leaf=pred_leaf,
                    pred_contrib=pred_contrib, num_threads=threads,
                )
            )
            for block in rows.blocks()
        ]  # fmt: skip
        return np.concatenate(parts)

    @property
    def booster_(self) -> Any:
        """The LightGBM Booster; its text is the model that the service would publish."""
        self._check_fitted()
        return self._booster

    @property
    def feature_importances_(self) -> np.ndarray:
        """Splits or gain of each feature, by importance_type, up to the best iteration."""
        self._check_fitted()
        return np.asarray(self._booster.feature_importance(importance_type=self.importance_type))

    @property
    def feature_name_(self) -> list[str]:
        """The names of the features, Column_0 and so on if they have none."""
        self._check_fitted()
        return list(self._booster.feature_name())

    def _train(
        self, sessions: Sessions, held_out: Sessions | None, feature_name: Any, rounds: int | None
    ) -> None:
        """Train. rounds: of early stopping, instead of the parameter's."""
        params = self.get_params(deep=False)
        if rounds is not None:
            params["early_stopping_rounds"] = rounds
        settings = merged_settings(default_settings(), params)
        validated = self.propensities is not None or self.method == LABELS
        if params["early_stopping_rounds"] is None and held_out is None and not validated:
            train = settings.train.model_copy(update={"early_stopping_round": 0})
            settings = settings.model_copy(update={"train": train})
        deepest = max(s.positions for s in (sessions, held_out) if s is not None)
        limit = settings.groups.max_position
        examination, by_segment = examination_for(
            self.method, self.propensities, min(deepest, limit)
        )
        theta = examination.theta if settings.train.fixed_click_bias else None
        names = _feature_names(feature_name, sessions.features)
        plan = plan_from_settings(settings, theta, names)
        with workspace() as work:
            fit = _Fit(work, settings, (examination, by_segment))
            pairs = fit.pairs(sessions, "train", settings.pairs.test_fraction)
            validation: list[str] = []
            if held_out is not None:
                validation = fit.pairs(held_out, "validation", 0.0).files
            source = PairFiles(
                work.warehouse.storage.url,
                pairs.files,
                settings.train.validation_fraction if plan.validates else 0.0,
                validation,
                weights=training_columns(plan.method, pairs.click_model),
                validation_weights=validation_columns(plan.method),
            )
            result = train_on_ranks(
                work.engine,
                source,
                replace(plan, click_model=pairs.click_model),
                DistributedOptions(max_retries=0),
            )
        self._keep(result.ranker, sessions.features)

    def _keep(self, trained: TrainedRanker, features: FeatureRows) -> None:
        for line in trained.warnings:
            warnings.warn(line, UnbiasedWarning, stacklevel=4)
        self._booster = trained.booster
        self._booster.best_iteration = trained.best_iteration
        self.best_iteration_ = trained.best_iteration
        self.history_ = list(trained.history)
        best = self.history_[self.best_iteration_ - 1 :][:1]
        self.best_score_ = best[0] if best else None
        self.choice_ = trained.choice
        learned = {} if trained.biases is None else trained.biases.record()
        self.biases_ = {name: np.array(values) for name, values in learned.items()}
        self.n_features_in_ = features.width
        if features.names:
            self.feature_names_in_ = np.array(features.names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with sessions "
                "before using this estimator."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_booster")

    def _check_features(self, rows: FeatureRows) -> None:
        known = list(getattr(self, "feature_names_in_", []))
        if known and rows.names and known != rows.names:
            missing = [name for name in known if name not in rows.names]
            what = f"no column {missing[0]}" if missing else "its columns are in another order"
            raise UserError(
                f"X has other features than in fit: {what}; give the columns {', '.join(known[:5])}"
                f"{', ...' if len(known) > 5 else ''}"
            )
        if rows.width != self.n_features_in_:
            raise UserError(
                f"X has {rows.width} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )


def _parameter_names() -> tuple[str, ...]:
    parameters = inspect.signature(Ranker.__init__).parameters.values()
    return tuple(p.name for p in parameters if p.name not in ("self", "kwargs"))


def _single(value: Any, name: str) -> Any:
    """Return the value of one eval set: LGBMRanker's arguments are lists with one per set."""
    if not isinstance(value, list):
        return value
    if len(value) == 1:
        return value[0]
    if name == "eval_set" or any(isinstance(part, Sequence | np.ndarray) for part in value):
        raise UserError(f"{name} has {len(value)} sets; training is stopped early by one")
    return value


def _check_width(features: FeatureRows, known: FeatureRows, name: str) -> None:
    if features.width != known.width:
        raise UserError(f"{name} has {features.width} features, X has {known.width}")


def _feature_names(feature_name: Any, features: FeatureRows) -> list[str]:
    names = features.names if isinstance(feature_name, str) else list(feature_name)
    if len(names) not in (0, features.width):
        raise UserError(f"feature_name has {len(names)} names for {features.width} features")
    return valid_names(names, "feature names")


class _Pairs(NamedTuple):
    """Files of pairs; click_model: what training reads of their weights."""

    files: list[str]
    click_model: str


class _Fit(NamedTuple):
    """The stages of one fit, in its workspace."""

    work: Workspace
    settings: Settings
    propensities: tuple[Examination, BySegment]

    def pairs(self, sessions: Sessions, name: str, test_fraction: float) -> _Pairs:
        """Build the pairs of sessions in a warehouse named `name`."""
        own, settings = self.work.part(name), self.settings
        files = write_sessions(
            own,
            sessions,
            max_position=settings.groups.max_position,
            golden=settings.pairs.method == LABELS,
        )
        _warn_of_changes(files, sessions)
        log = lenient(settings.log, path=files.log)
        counts = groups_of(own, log, settings.groups, [DATE])
        _refuse_invalid(own, counts)
        pairs = settings.pairs.model_copy(update={"test_fraction": test_fraction})
        features = settings.features.model_copy(update={"path": files.features})
        outcome = build_pairs(
            own.engine,
            own.warehouse,
            [DATE],
            pairs=pairs,
            features=features,
            propensities=self.propensities,
        )
        partition = outcome.manifest.partition
        click_model = outcome.manifest.inputs.get(CLICK_MODEL, "")
        return _Pairs(own.warehouse.files("pairs", partition), click_model)


def _refuse_invalid(work: Workspace, counts: Counter[str]) -> None:
    """Raise InvalidData if a session is no valid page."""
    if bad := reasons_in(counts).total():
        row = work.warehouse.read("quarantine", f"dt={DATE}").slice(0, 1).to_pylist()[0]
        raise InvalidData(invalid_sessions(bad, row["reason"], row["doc_ids"]))


def _warn_of_changes(files: SessionFiles, sessions: Sessions) -> None:
    if files.changed:
        warnings.warn(
            f"the features of {files.changed:,} of {sessions.features.rows:,} rows differ from "
            "those of the first row of the same query and document, which are used; give another "
            "doc id where the features are another",
            UnbiasedWarning,
            stacklevel=5,
        )

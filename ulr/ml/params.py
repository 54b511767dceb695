"""Parameters of the Estimator and its model.

Names are Spark's for columns, and LightGBM's and those of the settings for the rest. Every
parameter has a setter and a getter in Spark's style: num_workers has setNumWorkers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasLabelCol,
    HasPredictionCol,
    HasValidationIndicatorCol,
    HasWeightCol,
)

from ulr.config.settings import Settings
from ulr.engine.names import nearest
from ulr.errors import UserError
from ulr.ml.propensity_param import to_json_value

ALIASES = {"groupCol": "qidCol", "n_estimators": "num_iterations",
           "early_stopping_rounds": "early_stopping_round"}  # fmt: skip
# Parameters of the Estimator that are settings of the sections groups, pairs and train.
SETTINGS = (
    "max_position", "grouping", "session_weight", "precision", "saturation", "co_click_variance",
    "propensity_floor", "weight_cap", "prs_clip", "test_fraction", "num_iterations", "ranker",
    "objective", "linear_loss", "l2", "nonnegative_weights", "validation_fraction",
    "early_stopping_metric", "early_stopping_round", "bias_regularization", "bias_rounds",
    "fixed_click_bias", "position_bins", "num_workers", "checkpoint_every", "worker_timeout",
    "max_retries",
)  # fmt: skip
Class = TypeVar("Class", bound=type)


def make_param(name: str, doc: str, convert: Callable[[Any], Any]) -> Param[Any]:
    """Return a parameter to be an attribute of a class."""
    return Param(Params._dummy(), name, doc, convert)  # each object gets its own copy from Spark


def _text_or_texts(value: Any) -> str | list[str]:
    if isinstance(value, str):
        return value
    return TypeConverters.toListString(value)


def _number_or_auto(value: Any) -> float | str:
    return value if value == "auto" else TypeConverters.toFloat(value)


_TEXT, _INT, _FLOAT = TypeConverters.toString, TypeConverters.toInt, TypeConverters.toFloat
_BOOL = TypeConverters.toBoolean


def with_accessors(cls: Class) -> Class:
    """Give the class a setter and a getter for every parameter and alias that has none."""
    names = [name for name in dir(cls) if isinstance(getattr(cls, name), Param)]
    for name in (*names, *ALIASES):
        target = ALIASES.get(name, name)
        if target in names:
            _add(cls, f"set{_camel(name)}", _setter(target), f"Set {target}.")
            _add(cls, f"get{_camel(name)}", _getter(target), f"Return {target}, or its default.")
    return cls


def _camel(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def _add(cls: type, name: str, method: Any, doc: str) -> None:
    if not hasattr(cls, name):
        method.__name__, method.__doc__ = name, doc
        setattr(cls, name, method)


def _setter(name: str) -> Any:
    return lambda self, value: self.setParams(**{name: value})


def _getter(name: str) -> Any:
    return lambda self: self.getOrDefault(name)


class NamedParams(Params):
    """Parameters that are set by name or alias, with an error that names the nearest one."""

    def setParams(self, **params: Any) -> Any:  # noqa: N802 (Spark's name)
        """Set parameters by name."""
        values: dict[str, Any] = {}
        for given, value in params.items():
            name = ALIASES.get(given, given)
            if name in values:
                raise UserError(f"{given} and {name} are two names for one parameter; set one")
            if not self.hasParam(name):
                hint = nearest(given, [param.name for param in self.params])
                raise UserError(
                    f"{type(self).__name__} has no parameter {given}{hint}; parameters of LightGBM "
                    f"are given as lightgbm={{'{given}': ...}}"
                )
            values[name] = value
        self._set(**values)
        return self


class HasSessionCols(NamedParams):
    """The columns of a row of shown documents."""

    qidCol = make_param("qidCol", "id of the list: a session or a request", _TEXT)  # noqa: N815
    positionCol = make_param("positionCol", "displayed position, from 1", _TEXT)  # noqa: N815
    queryCol = make_param(  # noqa: N815
        "queryCol", "query of the list; sessions of a query that showed one ranking are aggregated",
        _TEXT,
    )  # fmt: skip
    docCol = make_param(  # noqa: N815
        "docCol", "id of the document; unset: documents of a query are known by their features",
        _TEXT,
    )  # fmt: skip
    segmentCol = make_param(  # noqa: N815
        "segmentCol", "segment of the list, with its own propensities", _TEXT
    )
    propensities = make_param(
        "propensities",
        "theta by position: a list, a frame (k, l, psi or position, theta), a dict by segment, the "
        "path of a file, or the result of ulr.propensities",
        to_json_value,
    )


@with_accessors
class RankerParams(
    HasSessionCols,
    HasFeaturesCol,
    HasLabelCol,
    HasWeightCol,
    HasPredictionCol,
    HasValidationIndicatorCol,
):
    """The parameters; docs/estimator.md lists them."""

    featuresCol = make_param(  # noqa: N815
        "featuresCol", "an array of numbers, an ML vector, or a list of numeric columns",
        _text_or_texts,
    )  # fmt: skip
    contribCol = make_param(  # noqa: N815
        "contribCol", "contribution of each feature to the score, and the bias", _TEXT
    )  # fmt: skip
    importanceType = make_param(  # noqa: N815
        "importanceType", "of featureImportances: split or gain", _TEXT
    )
    method = make_param(
        "method", "how clicks become weights, such as joint or naive; see docs/methods.md", _TEXT
    )
    max_position = make_param("max_position", "longer lists are cut", _INT)
    grouping = make_param("grouping", "ranking: a list per ranking; query: one list", _TEXT)
    session_weight = make_param("session_weight", "none or idcg", _TEXT)
    precision = make_param("precision", "weigh pairs by precision and saturation", _BOOL)
    saturation = make_param("saturation", "sessions that a pair counts as at most", _FLOAT)
    co_click_variance = make_param(
        "co_click_variance", "joint: prior variance of co-clicks, or auto", _number_or_auto
    )
    propensity_floor = make_param("propensity_floor", "lower bound of theta and psi", _FLOAT)
    weight_cap = make_param("weight_cap", "upper bound of the weight of a session", _FLOAT)
    prs_clip = make_param("prs_clip", "prs: upper bound of theta_j / theta_i", _FLOAT)
    test_fraction = make_param("test_fraction", "queries left out by the hash of their id", _FLOAT)
    num_workers = make_param("num_workers", "barrier tasks that train together", _INT)
    num_iterations = make_param("num_iterations", "maximum number of trees", _INT)
    ranker = make_param("ranker", "trees or linear", _TEXT)
    objective = make_param("objective", "lambdarank or ranknet", _TEXT)
    linear_loss = make_param("linear_loss", "linear: logistic or hinge", _TEXT)
    l2 = make_param("l2", "linear: factor of the squared weights", _FLOAT)
    nonnegative_weights = make_param(
        "nonnegative_weights", "raise weights of a pair until none is negative", _BOOL
    )
    validation_fraction = make_param(
        "validation_fraction", "queries held out for early stopping, by the hash of their id",
        _FLOAT,
    )  # fmt: skip
    early_stopping_metric = make_param("early_stopping_metric", "pair_loss or ndcg_at_K", _TEXT)
    early_stopping_round = make_param(
        "early_stopping_round", "iterations without improvement before training stops", _INT
    )
    bias_regularization = make_param(
        "bias_regularization", "regularisation of the learned biases, from 0", _FLOAT
    )
    bias_rounds = make_param(
        "bias_rounds", "iterations after which the biases stay fixed; 0: learned to the end", _INT
    )
    fixed_click_bias = make_param(
        "fixed_click_bias", "t+ is theta of the propensities, only t- is learned", _BOOL
    )
    position_bins = make_param("position_bins", "deeper positions share the last bin", _INT)
    checkpoint_every = make_param("checkpoint_every", "iterations between checkpoints", _INT)
    worker_timeout = make_param("worker_timeout", "seconds without a heartbeat", _FLOAT)
    max_retries = make_param("max_retries", "attempts to resume a failed training", _INT)
    lightgbm = make_param(
        "lightgbm", "LightGBM's parameters, as a dict; others keep the defaults of the settings",
        TypeConverters.identity,
    )  # fmt: skip
    workPath = make_param(  # noqa: N815
        "workPath", "folder for pairs and checkpoints of a fit; required on a cluster", _TEXT
    )

    def _set_defaults(self, settings: Settings) -> None:
        """Take the defaults from the settings, which are those of conf/base.yaml."""
        known = settings.groups.model_dump() | settings.pairs.model_dump()
        known |= settings.train.model_dump() | {"test_fraction": 0.0}
        defaults = {name: known[name] for name in SETTINGS}
        self._setDefault(**defaults, lightgbm={}, workPath="", importanceType="split")

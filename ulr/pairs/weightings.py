"""The weightings of a pair table: the weights that training and validation use.

A table holds its lists, features and pairs once, and a pair of columns for each weighting. The
columns `u_ij` and `u_ji` are those of the method, or of the first candidate of `auto`; the weights
of the validation loss are in `u_ij_validation` and `u_ji_validation`.
"""

from __future__ import annotations

from typing import NamedTuple

from ulr.kernels.layout import AS_COUNTED, BY_PATTERN, SMOOTHED
from ulr.pairs.weights import AUTO, BY_CLICK_PATTERN, LABELS
from ulr.propensity.examination import AFFINE, CASCADE

CLICK_MODEL = "click_model"  # in the inputs of a pairs table, if the diagnostics found one
JOINT = "joint"
VALIDATION = "validation"
# Their validation loss has their own weights: `joint` is biased for the clicks that they assume.
_OWN_VALIDATION = (AFFINE, CASCADE)


class Weighting(NamedTuple):
    """One pair of weight columns.

    name     of the columns: u_ij_NAME; the first weighting of a table is u_ij, whatever its name
    method   whose weights they are
    precise  whether they are multiplied by precision and saturate with traffic (section 4.6)
    """

    name: str
    method: str
    precise: bool = False

    @property
    def label(self) -> str:
        """The weighting in words."""
        return f"{self.method} with precision" if self.precise else self.method

    @property
    def smoothed(self) -> bool:
        """Whether co-clicks are smoothed by the prior, which takes a pass to estimate."""
        return self.method == JOINT and self.name != VALIDATION

    @property
    def counts(self) -> int:
        """Which counts of a pair are multiplied by the weights."""
        if self.method in BY_CLICK_PATTERN:
            return BY_PATTERN
        return SMOOTHED if self.smoothed else AS_COUNTED


# The first is published if no other has a significantly lower validation loss.
CANDIDATES = (
    Weighting("joint", JOINT, precise=True),
    Weighting("robust", "robust", precise=True),
    Weighting("pns", "pns", precise=True),
    Weighting("robust_plus", "robust+", precise=True),
    Weighting("joint_plain", JOINT),
)


def candidates_for(click_model: str) -> tuple[Weighting, ...]:
    """Return the candidates of `auto` under the click model that the diagnostics found.

    The method of the click model comes last: its weights are unbiased there, and noisy, so that it
    has to be significantly better, like every other departure from the default.
    """
    if click_model not in _OWN_VALIDATION:
        return CANDIDATES
    return (*CANDIDATES, Weighting(click_model, click_model, precise=True))


def weightings_of(
    method: str, *, precise: bool = False, click_model: str = ""
) -> tuple[Weighting, ...]:
    """Return the weightings of a method's table, in the order of its columns.

    The weights of the validation loss are those of the click model that the diagnostics found, or
    of the model that the method assumes.
    """
    assumed = method if method in _OWN_VALIDATION else click_model or JOINT
    validation = Weighting(VALIDATION, assumed, precise=True)
    if method == AUTO:
        return (*candidates_for(click_model), validation)
    own = Weighting(method, method, precise and method != LABELS)
    return (own,) if method == LABELS else (own, validation)


def column_names(weightings: tuple[Weighting, ...]) -> list[tuple[str, str]]:
    """Return the names of the two columns of each weighting."""
    suffixes = ["", *(f"_{weighting.name}" for weighting in weightings[1:])]
    return [(f"u_ij{suffix}", f"u_ji{suffix}") for suffix in suffixes]


def training_columns(method: str, click_model: str = "") -> list[tuple[str, str]]:
    """Return the columns that a method trains on: one pair, or one for each candidate."""
    columns = column_names(weightings_of(method, click_model=click_model))
    return columns[:-1] if method == AUTO else columns[:1]


def validation_columns(method: str) -> tuple[str, str]:
    """Return the columns of the validation loss."""
    return column_names(weightings_of(method))[-1]

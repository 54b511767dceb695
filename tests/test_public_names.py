"""The names of the package itself: imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ulr
import ulr.ml
from ulr.ml.estimator import UnbiasedLambdaMART
from ulr.ml.evaluate import evaluate
from ulr.ml.judgments import judgments
from ulr.ml.propensities import propensities
from ulr.ml.ranker import Ranker
from ulr.version import __version__


def test_importing_the_package_imports_neither_numpy_nor_pyspark():
    script = "import sys, ulr; sys.exit({'numpy', 'pyspark', 'numba'} & set(sys.modules) != set())"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_public_names_are_those_of_their_modules():
    assert ulr.__version__ == __version__
    assert ulr.UnbiasedLambdaMART is ulr.ml.UnbiasedLambdaMART is UnbiasedLambdaMART
    assert ulr.Ranker is Ranker
    assert ulr.evaluate is evaluate
    assert ulr.propensities is propensities
    assert ulr.judgments is judgments


@pytest.mark.parametrize("module", [ulr, ulr.ml])
def test_other_names_are_attribute_errors(module):
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing

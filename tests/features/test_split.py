import numpy as np
import pyarrow as pa

from ulr.features.split import in_split, sample_queries

NAMES = pa.array([f"q{n}" for n in range(4000)])


def test_every_query_is_in_train_or_test_and_test_has_its_fraction():
    test, train = in_split(NAMES, 0.2, "test"), in_split(NAMES, 0.2, "train")
    np.testing.assert_array_equal(test, ~train)
    assert abs(test.mean() - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 4000)
    assert in_split(NAMES, 0.2, "all").all()
    assert in_split(NAMES, 0.0, "train").all()


def test_a_larger_test_set_contains_a_smaller_one():
    assert in_split(NAMES, 0.3, "test")[in_split(NAMES, 0.1, "test")].all()


def test_each_purpose_has_its_own_sample():
    test, validation = (sample_queries(NAMES, 0.5, purpose) for purpose in ("test", "validation"))
    assert abs((test & validation).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 4000)


def test_a_table_without_rows_has_an_empty_split():
    assert in_split(pa.array([], pa.string()), 0.5, "test").size == 0

"""Examination loaded from a file or from the warehouse."""

import numpy as np
import pyarrow as pa
import pytest

from ulr.errors import UserError
from ulr.propensity.examination import load_examination, load_file
from ulr.warehouse.schema import (
    joint_propensities_schema,
    propensities_schema,
    truth_examination_schema,
)
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse


def stored(tmp_path, rows):
    table = pa.Table.from_pylist(rows, schema=truth_examination_schema)
    Storage(f"{tmp_path}").write_table(table, "examination.parquet")
    return f"{tmp_path}/examination.parquet"


def rows_of(segment, theta, both, affine=True):
    rows = [
        {"segment": segment, "k": k, "l": k, "psi": t, "alpha": t / 2 if affine else None,
         "beta": 0.1 if affine else None}
        for k, t in enumerate(theta, start=1)
    ]  # fmt: skip
    return [*rows, {"segment": segment, "k": 1, "l": 2, "psi": both, "alpha": None, "beta": None}]


def test_theta_is_the_diagonal_and_psi_is_symmetric(tmp_path):
    pooled, segments = load_file(stored(tmp_path, rows_of(None, [1.0, 0.5], 0.4)))
    assert segments == {}
    np.testing.assert_array_equal(pooled.theta, [1.0, 0.5])
    np.testing.assert_array_equal(pooled.psi, [[1.0, 0.4], [0.4, 0.5]])
    np.testing.assert_array_equal(pooled.alpha, [0.5, 0.25])
    np.testing.assert_array_equal(pooled.beta, [0.1, 0.1])


def test_segments_without_a_pooled_curve_are_averaged(tmp_path):
    rows = rows_of("a", [1.0, 0.5], 0.5) + rows_of("b", [1.0, 0.3], 0.1, affine=False)
    pooled, segments = load_file(stored(tmp_path, rows))
    assert set(segments) == {"a", "b"}
    assert segments["b"].alpha is None
    assert pooled.alpha is None
    assert pooled.theta[1] == pytest.approx((0.5 + 0.3) / 2)
    assert pooled.psi[0, 1] == pytest.approx((0.5 + 0.1) / 2)


def test_missing_files_pairs_and_rows_are_named(tmp_path):
    with pytest.raises(UserError, match="no propensities at"):
        load_file(f"{tmp_path}/nothing.parquet")
    with pytest.raises(UserError, match=r"no psi for positions \(1, 2\)"):
        load_file(stored(tmp_path, rows_of(None, [1.0, 0.5], 0.4)[:2]))
    with pytest.raises(UserError, match="no rows"):
        load_file(stored(tmp_path, []))


def test_positions_from_0_and_other_files_are_rejected(tmp_path):
    """As an index, position 0 would mean the last one: psi[-1]."""
    rows = rows_of(None, [1.0, 0.5, 0.4], 0.4)
    shifted = [row | {"k": row["k"] - 1, "l": row["l"] - 1} for row in rows]
    with pytest.raises(UserError, match="position 0; positions begin at 1"):
        load_file(stored(tmp_path, shifted))
    (tmp_path / "theta.json").write_text("[1, 0.5]")
    with pytest.raises(UserError, match="expected a Parquet file of propensities"):
        load_file(f"{tmp_path}/theta.json")


def published(root, curve: dict[str | None, list[float | None]], run="x") -> Warehouse:
    """A warehouse whose psi is the product of its thetas, null where a theta is."""
    theta, psi = [], []
    for segment, values in curve.items():
        for k, value in enumerate(values, start=1):
            theta.append({"segment": segment, "position": k, "theta": value, "support": 9,
                          "estimator": "e", "source": "s", "note": ""})  # fmt: skip
            for v, other in list(enumerate(values, start=1))[k:]:
                product = None if value is None or other is None else value * other
                psi.append({"segment": segment, "k": k, "l": v, "psi": product, "support": 9,
                            "browsing": "b", "source": "s", "note": ""})  # fmt: skip
    warehouse = Warehouse(str(root))
    for name, rows, schema in (
        ("propensities", theta, propensities_schema),
        ("joint_propensities", psi, joint_propensities_schema),
    ):
        publish(warehouse, name, pa.Table.from_pylist(rows, schema=schema), run)
    return warehouse


def publish(warehouse, name, table, run):
    with warehouse.writing(name, "", run) as draft:
        Storage(draft.url).write_table(table, "part-00000.parquet")
        draft.publish({})


def test_theta_and_psi_of_different_runs_are_rejected(tmp_path):
    """A run that is killed between the two publications leaves such tables."""
    warehouse = published(tmp_path, {None: [1.0, 0.5]}, run="old")
    publish(warehouse, "joint_propensities", warehouse.read("joint_propensities"), "new")
    with pytest.raises(UserError, match=r"different runs.*run `ulr propensities` again"):
        load_examination("warehouse", warehouse)
    publish(warehouse, "propensities", warehouse.read("propensities"), "new")
    load_examination("warehouse", warehouse)


def test_published_tables_are_read_segment_by_segment(tmp_path):
    warehouse = published(tmp_path, {None: [1.0, 0.5, 0.25], "mobile": [1.0, 0.4, 0.2]})
    pooled, segments = load_examination("warehouse", warehouse)
    assert pooled.theta.tolist() == [1.0, 0.5, 0.25]
    assert pooled.psi[1, 2] == pooled.psi[2, 1] == 0.5 * 0.25
    assert segments["mobile"].psi[0, 1] == 0.4
    assert pooled.alpha is None


def test_published_examination_ends_before_the_first_position_without_an_estimate(tmp_path):
    warehouse = published(tmp_path, {None: [1.0, 0.5, None, 0.1], "thin": [1.0, None, 0.2, 0.1]})
    pooled, segments = load_examination("warehouse", warehouse)
    assert pooled.theta.tolist() == [1.0, 0.5]
    assert pooled.psi.shape == (2, 2)
    assert segments == {}  # shorter than all traffic, so treated like all traffic


def test_a_warehouse_without_propensities_names_the_command_to_run(tmp_path):
    with pytest.raises(UserError, match="run `ulr propensities` first"):
        load_examination("warehouse", Warehouse(str(tmp_path)))
    with pytest.raises(UserError, match="position 1 of the published propensities has no estimate"):
        load_examination("warehouse", published(tmp_path, {None: [None, 0.5]}))


def test_kappa_and_users_who_stop_are_optional_columns_of_a_file(tmp_path):
    rows = [row | {"kappa": None} for row in rows_of(None, [1.0, 0.5], 0.4)]
    rows[-1]["kappa"] = 1.7
    path = f"{tmp_path}/file.parquet"

    def loaded(**more):
        Storage(f"{tmp_path}").write_table(
            pa.Table.from_pylist([row | more for row in rows]), "file.parquet"
        )
        return load_file(path)[0]

    plain = loaded()
    assert plain.kappa.tolist() == [[1.0, 1.7], [1.7, 1.0]]
    assert plain.stop_probability is None
    assert plain.click_model == "affine"  # beta / alpha is .2 and .4
    stops = loaded(stop_probability=0.4, continue_probability=0.9)
    assert (stops.stop_probability, stops.continue_probability) == (0.4, 0.9)
    assert stops.click_model == "cascade"
    assert stops.cut(1).kappa.tolist() == [[1.0]]
    noise = loaded(beta=None, alpha=None)
    assert noise.click_model == ""
    rows[-1]["kappa"] = None
    assert loaded().kappa is None


def test_click_noise_alone_is_not_trust_bias(tmp_path):
    rows = rows_of(None, [1.0, 0.5], 0.4)
    for row in rows[:2]:
        row["beta"] = 0.1 * row["psi"]
    assert load_file(stored(tmp_path, rows))[0].click_model == ""

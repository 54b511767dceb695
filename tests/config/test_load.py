from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from ulr.config.load import load_settings
from ulr.errors import UserError


def test_the_shipped_settings_are_valid():
    assert load_settings(None).groups.max_position == 50


def test_a_change_overrides_the_overlay_and_the_overlay_overrides_the_base(tmp_path):
    overlay = tmp_path / "my.yaml"
    overlay.write_text("groups: {partitions: 3, max_position: 7}")
    settings = load_settings(str(overlay), ["groups.partitions=5"])
    assert (settings.groups.partitions, settings.groups.max_position) == (5, 7)


def test_keys_of_spark_keep_their_dots():
    settings = load_settings(None, ["spark.sql.shuffle.partitions=3"])
    assert settings.spark["sql.shuffle.partitions"] == 3


def test_loaded_settings_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        load_settings(None).groups.partitions = 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("groups.partitons=2", ["groups.partitons", "partitions"]),
        ("groups.partitions=many", ["groups.partitions", "'many'", "integer"]),
        ("groups.partitions=0", ["groups.partitions", "greater than or equal to 1"]),
        ("simulate.examination.model=psychic", ["examination.model", "'continuous'"]),
        ("simulate.swaps=[{fraction: 0.1}]", ["simulate.swaps.0", "kind", "bucket"]),
        ("simulate.swaps=[{bucket: '1:1', fraction: 0.1}]", ["simulate.swaps.0", "1:1"]),
        ("simulate.segments=[{name: a, fraction: 0.4, eta: 1}]", ["segments", "add up to 1"]),
        ("simulate.positions=1", ["simulate: swaps: single needs 2 positions, positions is 1"]),
        ("simulate.swaps=[{bucket: '1:20', fraction: 0.1}]", ["1:20 needs 20", "positions is 10"]),
        ("spark.a.b=null", ["spark.a.b = None: "]),
        ("lightgbm.x=null", ["lightgbm.x = None: "]),
        ("train.bias_regularization=-0.1", ["train.bias_regularization", "equal to 0"]),
        ("train.bias_regularization=.inf", ["train.bias_regularization", "finite"]),
        ("pairs.co_click_variance=x", ["pairs.co_click_variance = 'x': "]),
        ("nothing", ["section.key=value"]),
        ("nosuch.key=1", ["nosuch", "allowed", "groups"]),
    ],
)
def test_an_invalid_change_is_one_line_with_the_key_and_what_is_allowed(change, expected):
    with pytest.raises(UserError) as error:
        load_settings(None, [change])
    line = str(error.value)
    assert "\n" not in line
    assert all(word in line for word in [*expected, f"--set {change}"])


def test_the_error_of_an_unknown_key_names_its_file(tmp_path):
    overlay = tmp_path / "night.yaml"
    overlay.write_text("log: {pth: somewhere}")
    with pytest.raises(UserError, match=r"night\.yaml: unknown key log\.pth"):
        load_settings(str(overlay))


def test_a_missing_file_and_broken_yaml_are_one_line(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        load_settings(str(tmp_path / "absent.yaml"))
    broken = tmp_path / "broken.yaml"
    broken.write_bytes(b"a: caf\xe9")
    with pytest.raises(UserError, match="not UTF-8"):
        load_settings(str(broken))
    broken.write_text("a: [")
    with pytest.raises(UserError, match="not YAML"):
        load_settings(str(broken))


def test_printed_settings_can_be_used_as_an_overlay(tmp_path):
    settings = load_settings(None, ["groups.partitions=5"])
    overlay = tmp_path / "printed.yaml"
    overlay.write_text(yaml.safe_dump(settings.model_dump(mode="json")))
    assert load_settings(str(overlay)) == settings


def test_the_settings_are_found_in_a_zip_of_the_package(tmp_path):
    root = Path(__file__).parents[2]
    with zipfile.ZipFile(tmp_path / "ulr.zip", "w") as archive:
        for path in (root / "ulr").rglob("*.py"):
            archive.write(path, path.relative_to(root))
        for path in (root / "conf").glob("*.yaml"):
            archive.write(path, f"ulr/conf/{path.name}")
    program = (
        "from ulr.config import load\n"
        "print(load.__file__, load.load_settings(None).train.num_iterations)"
    )
    env = os.environ | {"PYTHONPATH": str(tmp_path / "ulr.zip")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    module, iterations = done.stdout.split()
    assert module.startswith(str(tmp_path / "ulr.zip"))
    assert int(iterations) == load_settings(None).train.num_iterations


def test_a_value_of_several_types_names_all_of_them():
    with pytest.raises(UserError, match=r"phi = 'half': .*valid number.* or .*'relevance'"):
        load_settings(None, ["simulate.examination.phi=half"])
    assert load_settings(None, ["simulate.examination.phi=relevance"]).simulate.examination.phi == (
        "relevance"
    )

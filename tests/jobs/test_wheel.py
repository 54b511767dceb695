"""The wheel, installed: its entry point ends with the exit code, and it has all files of a page."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.shipping import make_wheel

pytestmark = pytest.mark.all


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the wheel's files, and its script `bin/ulr`."""
    root = tmp_path_factory.mktemp("wheel")
    target, wheel = root / "installed", make_wheel(root)
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", target, wheel]
    subprocess.run([sys.executable, *install], check=True)
    return target


def run(installed, *command):
    environ = os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run(
        command, env=environ, cwd=installed.parent, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("flags", "code"), [([], 0), (["--set", "groups.nosuch=1"], 2)])
def test_the_entry_point_ends_with_the_exit_code_and_writes_the_result(installed, flags, code):
    result = installed.parent / f"{code}.json"
    done = run(
        installed, installed / "bin" / "ulr", "config", "--quiet", "--result", result, *flags
    )
    assert done.returncode == code, done.stderr
    assert json.loads(result.read_text()).get("exit_code", 0) == code


def test_the_wheel_has_the_templates_of_the_pages(installed):
    program = (
        "from ulr.report.nights.page import nights_page; import ulr;"
        "from ulr.report.nights.rows import History, NightRow;"
        "print(ulr.__file__, nights_page(History([NightRow('2026-01-01', 'failed', 'x: y')])))"
    )
    done = run(installed, sys.executable, "-c", program)
    assert done.stdout.startswith(str(installed)), done.stderr
    assert "There is no champion yet." in done.stdout

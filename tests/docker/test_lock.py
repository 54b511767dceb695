"""The lock files: hashes for every file, and an image with the versions that are tested."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ["requirements.lock", "requirements-bench.lock", "docker/requirements.lock"]
spec = importlib.util.spec_from_file_location("lock", ROOT / "docker" / "lock.py")
lock = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lock)


def entries(name: str) -> dict[str, tuple[str, set[str]]]:
    """Return version and hashes of every package."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    pins = [(line[0].split("=="), set(line[1:])) for line in lines]
    return {canonicalize_name(package): (version, rest) for (package, version), rest in pins}


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_has_hashes_and_no_index_is_named(name):
    for package, (_, hashes) in entries(name).items():
        assert hashes, package
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", h) for h in hashes), package
    assert "://" not in (ROOT / name).read_text()


def test_the_image_has_the_tested_versions_of_what_setup_py_requires_and_nothing_else():
    tested, image = entries("requirements.lock"), entries("docker/requirements.lock")
    assert image.items() <= tested.items()
    assert image.keys() == lock.image_names(lock._requirements()) & tested.keys()
    required = {canonicalize_name(Requirement(r).name) for r in lock._requirements()}
    assert required <= image.keys()
    assert {"pytest", "moto", "mypy"}.isdisjoint(image)


def test_the_hashes_cover_other_processors_and_systems():
    assert len(entries("requirements.lock")["numpy"][1]) >= 4  # Linux and macOS, two processors


def test_pip_refuses_a_package_that_differs_from_its_hash(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "setup.py").write_text("from setuptools import setup; setup(name='x', version='1')")
    build = [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", str(tmp_path)]
    subprocess.run(build, cwd=package, check=True, capture_output=True)
    locked = tmp_path / "requirements.lock"
    locked.write_text(f"x==1 --hash=sha256:{'0' * 64}\n")
    install = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", str(tmp_path),
               "--target", str(tmp_path / "target"), "-r", str(locked)]  # fmt: skip
    done = subprocess.run(install, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr

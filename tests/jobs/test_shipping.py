"""What `make dist` makes runs on a cluster that has Spark and nothing of ours."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.clicked_pairs import publish_pairs
from tests.support.cluster import HOME, standalone_cluster

ROOT = Path(__file__).parent.parent.parent
ARCHIVE = "dist/environment.tar.gz"
SMALL = ["spark.executor.cores=1", "spark.executor.memory=600m", "spark.driver.host=127.0.0.1"]
ROUNDS = ["train.num_workers=1", "train.num_iterations=5", "train.validation_fraction=0.3"]


@pytest.fixture
def bare(tmp_path):
    """An environment as on a machine of the cluster: Java, Spark, no Python packages."""
    kept = {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    (tmp_path / "nobody").mkdir()
    return kept | {"PATH": os.defpath, "HOME": str(tmp_path / "nobody"), "SPARK_HOME": str(HOME),
                   "SPARK_LOCAL_IP": "127.0.0.1"}  # fmt: skip


@pytest.fixture
def home(tmp_path):
    """An empty folder to submit from; gigabytes when done, which pytest would keep."""
    (tmp_path / "home" / "dist").mkdir(parents=True)
    yield tmp_path / "home"
    for large in tmp_path.iterdir():
        if large.is_dir():
            shutil.rmtree(large)


def make_dist(folder: Path) -> None:
    """The wheel and the archive, made from a copy of the sources."""
    source = folder.parent.parent / "source"
    for name in ("conf", "ulr"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "setup.py"):
        shutil.copy(ROOT / name, source)
    pip = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source]
    subprocess.run([sys.executable, *pip], check=True)
    (wheel,) = folder.glob("ulr-*.whl")
    pack = [ROOT / "docker" / "pack.py", wheel, folder.parent / ARCHIVE]
    subprocess.run([sys.executable, *pack, "--level", "0"], check=True)  # saves half a minute


def submit_of_the_page(url: str) -> list[str]:
    """The page's own command for a standalone cluster, with this cluster's address and size."""
    blocks = (ROOT / "docs" / "shipping.md").read_text().split("```")[1::2]
    (block,) = (text for text in blocks if "--master spark://HOST:7077" in text)
    text = block[block.index("spark-submit") :].replace("\\\n", " ")
    words = shlex.split(text.replace("spark://HOST:7077", url))
    job = next(n for n, word in enumerate(words) if word.endswith(".py"))
    sizes = [word for setting in SMALL for word in ("--conf", setting)]
    changes = [word for setting in ROUNDS for word in ("--set", setting)]
    stage = ["environment/jobs/train.py", "--conf", "environment/conf/cluster.yaml"]
    assert words[job + 1 : job + 3] == stage[1:]
    return [str(HOME / "bin" / words[0]), *words[1:job], *sizes, *stage, *changes]


@pytest.mark.spark
def test_the_pages_submit_trains_from_the_archive_where_workers_have_no_ulr(tmp_path, home, bare):
    make_dist(home / "dist")
    with tarfile.open(home / ARCHIVE) as archive:
        archive.extractall(home / "environment", filter="tar")
    publish_pairs(home)
    alone = subprocess.run(
        [sys._base_executable, "-c", "import ulr"], env=bare, cwd=home, check=False,
        capture_output=True,
    )  # fmt: skip
    assert b"No module named 'ulr'" in alone.stderr
    with standalone_cluster(tmp_path, workers=1, env=bare) as url:
        done = subprocess.run(
            submit_of_the_page(url), cwd=home, env=bare, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "trees" in done.stdout
    (own,) = tmp_path.glob("work0/app-*/*/environment/bin/python3")
    assert own.is_file()

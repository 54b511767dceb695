"""Jobs on one standalone cluster of three workers, whose machines have Java and Spark only."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.clicked_pairs import publish_pairs
from tests.support.cluster import (
    APPLICATION,
    SPARK_HOME,
    minimal_environment,
    standalone_cluster,
    submit,
)
from tests.support.shipping import ARCHIVE, documented_submit, make_dist
from tests.support.table_hashes import table_hashes
from tests.support.waiting import LIMIT_S
from ulr.cli.main import main

pytestmark = [pytest.mark.all, pytest.mark.cluster, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
WORKERS = 3


def settings(**changes: object) -> list[str]:
    """Return --set options; a double underscore stands for the dot of a setting's name."""
    pairs = ((name.replace("__", "."), value) for name, value in changes.items())
    return [word for name, value in pairs for word in ("--set", f"{name}={value}")]


ON_CLUSTER = [
    "--conf", str(ROOT / "conf" / "cluster.yaml"),
    *settings(spark__executor__memoryOverhead="300m", spark__sql__shuffle__partitions=3),
]  # fmt: skip
LOG = settings(
    simulate__days=1, simulate__pages_per_day=4000, simulate__pages_per_file=1000,
    simulate__queries=300, simulate__features=8, groups__partitions=3,
)  # fmt: skip
TRAIN = settings(
    pairs__method="joint", train__num_iterations=15, train__checkpoint_every=5,
    train__early_stopping_round=5, train__validation_fraction=0.3,
    lightgbm__bagging_fraction=0.8, lightgbm__bagging_freq=1,
)  # fmt: skip


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """Return the folder in which the workers store the files of their executors."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def cluster(workers):
    with standalone_cluster(workers, WORKERS) as url:
        yield url


@pytest.fixture(scope="module")
def local_model(tmp_path_factory):
    """Return the model and its record, trained by one process on this machine."""
    folder = tmp_path_factory.mktemp("local")
    publish_pairs(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", *TRAIN, *settings(train__num_workers=1)]) == 0
    return model_files(folder)


def model_files(folder: Path) -> tuple[bytes, dict]:
    (text,) = folder.rglob("model.txt")
    return text.read_bytes(), json.loads((text.parent / "record.json").read_text())


def test_jobs_on_a_cluster_and_commands_on_one_machine_write_the_same_bytes(
    cluster, workers, tmp_path, monkeypatch
):
    remote, local = tmp_path / "remote", tmp_path / "local"
    remote.mkdir()
    local.mkdir()
    monkeypatch.chdir(local)
    for stage, *date in (["simulate"], ["groups", "--date", "2026-01-01"]):
        job = ROOT / "jobs" / f"{stage}.py"
        done = submit(cluster, job, *ON_CLUSTER, *LOG, *date, cwd=remote)
        assert done.returncode == 0, done.stderr[-3000:]
        assert main([stage, *LOG, *date]) == 0
    assert "4,000 pages" in done.stdout
    used = {path.parents[2].name for path in workers.glob("work*/app-*/*/stderr")}
    assert used == {f"work{n}" for n in range(WORKERS)}
    hashes = table_hashes(local / "data")
    assert hashes
    assert table_hashes(remote / "data") == hashes


def test_two_workers_train_the_same_model_as_one_machine(cluster, local_model, tmp_path):
    publish_pairs(tmp_path)
    train = [*ON_CLUSTER, *TRAIN, *settings(train__num_workers=2)]
    done = submit(cluster, ROOT / "jobs" / "train.py", *train, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "by 2 workers" in done.stdout
    (text, record), (local_text, local_record) = model_files(tmp_path), local_model
    assert text == local_text
    assert record["validation"] == local_record["validation"]
    assert [worker["rank"] for worker in record["workers"]] == [0, 1]
    assert {"gradient", "trees", "network"} <= set(record["workers"][0]["seconds"])
    assert not list(tmp_path.rglob("checkpoints/**/*.json"))


def test_a_user_error_is_reported_in_one_line_with_exit_code_2(cluster, tmp_path):
    target = tmp_path / "result.json"
    flags = [*ON_CLUSTER, *TRAIN, "--result", target.as_uri()]
    done = submit(cluster, ROOT / "jobs" / "train.py", *flags, cwd=tmp_path)
    assert done.returncode == 2
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("ulr: "))
    assert "has no pairs" in line
    assert json.loads(target.read_text()) == {"error": line[len("ulr: ") :], "exit_code": 2}


# jobs/train.py with two additions. Before training, it checks that one worker more than the cluster
# has cores is refused. In iteration 7 of the first attempt the worker of rank 1 kills its executor,
# the parent of the daemon that started the worker's process.
DISTURBED_TRAINING = """
import os, signal, sys
from pathlib import Path
from ulr.cli.main import main
from ulr.errors import UserError
from ulr.training import stage
from ulr.engine.spark.ranks import check_slots

def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

def kill_the_executor(rank, attempt, iteration):
    if (rank, attempt, iteration) == (1, 1, 7):
        executor = parent(os.getppid())
        assert "CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_text()
        os.kill(executor, signal.SIGKILL)
        signal.pause()

def disturbed_training(engine, *args, **options):
    check_slots(engine.session, 3)
    try:
        check_slots(engine.session, 4, timeout=0)
    except UserError as error:
        print(error)
    return train_on_ranks(engine, *args, **options, on_iteration=kill_the_executor)

train_on_ranks, stage.train_on_ranks = stage.train_on_ranks, disturbed_training
sys.exit(main(["train", *sys.argv[1:]]))
"""


@pytest.mark.kill
def test_three_workers_train_the_same_model_as_one_machine_after_an_executor_is_killed(
    cluster, local_model, tmp_path
):
    publish_pairs(tmp_path)
    job = tmp_path / "disturbed_training.py"
    job.write_text(DISTURBED_TRAINING)
    done = submit(cluster, job, *ON_CLUSTER, *TRAIN, *settings(train__num_workers=3), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "num_workers = 4, but the cluster runs 3 tasks at once" in done.stdout
    assert "by 3 workers" in done.stdout
    assert "attempt 1 failed" in done.stdout
    (text, record), (local_text, local_record) = model_files(tmp_path), local_model
    assert text == local_text
    assert record["validation"] == local_record["validation"]
    assert len(record["failures"]) == 1
    assert {worker["resumed_at"] for worker in record["workers"]} == {5}


@pytest.fixture
def home(tmp_path, workers):
    """Yield a folder to submit the archive from; delete it afterwards, since it is gigabytes."""
    yield tmp_path
    for folder in (tmp_path, *workers.glob("work*/app-*/*/environment")):
        shutil.rmtree(folder)


def test_the_documented_submit_trains_from_the_archive_on_machines_without_ulr(
    cluster, workers, home
):
    machine = minimal_environment(home)
    probe = [sys._base_executable, "-c", "import ulr"]
    absent = subprocess.run(probe, env=machine, cwd=home, check=False, capture_output=True)
    assert b"No module named 'ulr'" in absent.stderr
    make_dist(home)
    with tarfile.open(home / ARCHIVE) as archive:
        archive.extractall(home / "environment", filter="tar")
    publish_pairs(home)
    command = documented_submit(cluster, "train", conf=APPLICATION | {"spark.cores.max": "1"})
    few = settings(pairs__method="joint", train__num_workers=1, train__num_iterations=5)
    done = subprocess.run(
        [str(SPARK_HOME / "bin" / command[0]), *command[1:], *few],
        cwd=home, env=machine, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "trees" in done.stdout
    (interpreter,) = workers.glob("work*/app-*/*/environment/bin/python3")
    assert interpreter.is_file()

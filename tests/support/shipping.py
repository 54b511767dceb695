"""The archive of `make dist`, and the command of docs/shipping.md that submits it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = "dist/environment.tar.gz"


def make_dist(folder: Path) -> None:
    """Write the wheel and the archive below `folder / "dist"`, as `make dist` does."""
    pack = [ROOT / "docker" / "pack.py", make_wheel(folder), folder / ARCHIVE]
    subprocess.run([sys.executable, *pack, "--level", "0"], check=True)  # 30 s faster


def make_wheel(folder: Path) -> Path:
    """Write the wheel below `folder / "dist"`, from a copy: a build writes beside its sources."""
    source, dist = folder / "source", folder / "dist"
    for name in ("conf", "ulr"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "setup.py"):
        shutil.copy(ROOT / name, source)
    build = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", dist, source]
    subprocess.run([sys.executable, *build], check=True)
    (wheel,) = dist.glob("ulr-*.whl")
    return wheel


def documented_submit(url: str, stage: str, *, conf: dict[str, str]) -> list[str]:
    """Return the command of docs/shipping.md for a standalone cluster, for another stage.

    url: of the master. conf: Spark properties that differ, because the test cluster is small.
    """
    blocks = (ROOT / "docs" / "shipping.md").read_text().split("```")[1::2]
    (block,) = (text for text in blocks if "--master spark://HOST:7077" in text)
    text = block[block.index("spark-submit") :].replace("\\\n", " ")
    words = shlex.split(text.replace("spark://HOST:7077", url))
    job = words.index("environment/jobs/nightly.py")
    assert words[job + 1 : job + 3] == ["--conf", "environment/conf/cluster.yaml"]
    sizes = [word for item in conf.items() for word in ("--conf", "=".join(item))]
    return [*words[:job], *sizes, f"environment/jobs/{stage}.py", *words[job + 1 : job + 3]]

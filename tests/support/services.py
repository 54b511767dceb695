"""The services of compose.yaml as plain processes: the same commands, without Docker.

    python -m tests.support.services FOLDER simulate "nightly --date 2026-01-03"

Starts every service in its order with its own environment, waits until its health check says
yes, runs each job given, and stops everything. The world is smaller in three ways: a service's
name stands for 127.0.0.1, a path of the container lies below FOLDER, and PostgreSQL is this
machine's own. The ports are those of compose.yaml and must be free.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import yaml

HERE = Path(__file__).resolve().parents[2] / "docker"
WORKER_PAGES = 8081  # workers share an address here, so each has a port of its own
HEALTHY_WITHIN = 180.0
WORKDIR = re.findall(r"^WORKDIR (\S+)", (HERE / "Dockerfile").read_text(), re.M)[-1]
Service = dict[str, Any]


class CannotStart(Exception):
    """Something is missing; the message says what."""


def read_compose(text: str, environ: Mapping[str, str]) -> dict[str, Service]:
    """The services, with ${NAME:-default} and ${NAME:?why} filled in as Compose does."""

    def fill(found: re.Match[str]) -> str:
        name, kind, words = found.groups()
        if environ.get(name):
            return environ[name]
        if kind == ":?":
            raise CannotStart(f"{name} is not set; {words}")
        return words

    content = re.sub(r"^\s*#.*", "", text, flags=re.M)
    return yaml.safe_load(re.sub(r"\$\{(\w+)(:[-?])([^}]*)\}", fill, content))["services"]


def in_order(services: Mapping[str, Service]) -> list[str]:
    """Every service after those it depends on; the ones behind a profile are left out."""
    order: list[str] = []

    def visit(name: str) -> None:
        for before in services[name].get("depends_on", {}):
            visit(before)
        if name not in order:
            order.append(name)

    for name, service in services.items():
        if "profiles" not in service:
            visit(name)
    return order


@dataclass(frozen=True)
class Place:
    """Where containers' paths and names are on this machine."""

    folder: Path
    services: Mapping[str, Service]

    def path(self, inside: str) -> Path:
        """A container's path."""
        return self.folder / "root" / inside.lstrip("/")

    def mount(self, service: Service) -> None:
        """Its volumes, as links."""
        for volume in service.get("volumes", []):
            source, target = volume.removesuffix(":ro").split(":")
            named = self.folder / "volumes" / source
            real = (HERE / source).resolve() if source.startswith((".", "/")) else named
            if real is named:
                real.mkdir(parents=True, exist_ok=True)
            self.path(target).parent.mkdir(parents=True, exist_ok=True)
            if not self.path(target).is_symlink():
                self.path(target).symlink_to(real)

    def value(self, key: str, value: Any) -> str:
        """A variable's value, with names and paths of this machine."""
        text = str(value)
        if text == "0.0.0.0" or (key.endswith("_HOST") and text in self.services):
            return "127.0.0.1"
        if text.startswith("/"):
            return str(self.path(text))
        names = "|".join(map(re.escape, self.services))
        return re.sub(rf"(?<![\w-])({names})(?=:\d)", "127.0.0.1", text)

    def environment(self, name: str) -> dict[str, str]:
        """What the image sets, and then what compose.yaml sets."""
        own = self.folder / "own" / name
        for below in ("tmp", "spark"):
            (own / below).mkdir(parents=True, exist_ok=True)
        image = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(own), "TMPDIR": str(own / "tmp"), "SPARK_CONF_DIR": str(own / "spark"),
            "SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(own / "work"), "PYSPARK_PYTHON": sys.executable,
            "SPARK_WORKER_WEBUI_PORT": str(WORKER_PAGES + list(self.services).index(name)),
            "PYTHONPATH": str(HERE.parent), "ULR_HOME": str(HERE.parent),
            "MLFLOW_DISABLE_TELEMETRY": "true", "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
        }  # fmt: skip
        given = self.services[name].get("environment", {})
        return image | {key: self.value(key, value) for key, value in given.items()}


@contextlib.contextmanager
def running(place: Place, name: str) -> Iterator[None]:
    """The service, from healthy to stopped, with everything that it has started."""
    service, environ = place.services[name], place.environment(name)
    place.mount(service)
    ours = "build" in service
    command = [str(HERE / "entrypoint"), *service["command"]] if ours else database(place, name)
    check = [str(HERE / "entrypoint"), "health"] if ours else service["healthcheck"]["test"][1:]
    log, began = place.folder / f"{name}.log", time.monotonic()
    place.path(WORKDIR).mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environ, stdout=out, stderr=out, start_new_session=True,
            cwd=place.path(WORKDIR), user=None if ours else not_root(),
        )  # fmt: skip
        try:
            while subprocess.run(check, env=environ, capture_output=True, check=False).returncode:
                if process.poll() is not None or time.monotonic() - began > HEALTHY_WITHIN:
                    raise CannotStart(f"{name} is not healthy: {log.read_text()[-1500:]}")
                time.sleep(0.5)
            print(f"{name}: healthy after {time.monotonic() - began:.1f} s", flush=True)
            yield
        finally:
            stop(process)


def stop(process: subprocess.Popen[bytes], patience: float = 30.0) -> None:
    """End it and what it has started; by force where asking does not help."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        os.killpg(process.pid, signal.SIGKILL)  # whoever of them is left
    process.wait()


def database(place: Place, name: str) -> list[str]:
    """The command that serves PostgreSQL; as in the official image, an empty volume is filled."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        raise CannotStart("no PostgreSQL here; on Debian or Ubuntu: apt-get install postgresql")
    programs, data = found[-1].parent, place.folder / "volumes" / "database"
    if not (data / "PG_VERSION").exists():
        create_database(programs, data, place.environment(name))
    return [str(programs / "postgres"), "-D", str(data), "-h", "127.0.0.1", "-k", str(data)]


def create_database(programs: Path, data: Path, given: Mapping[str, str]) -> None:
    """A cluster with the user, the password and the database that compose.yaml names."""
    with tempfile.NamedTemporaryFile("w") as password:  # which nobody else can read
        password.write(given["POSTGRES_PASSWORD"])
        password.flush()
        for path in (data, password.name):
            shutil.chown(path, not_root())
        subprocess.run(
            [programs / "initdb", "--pgdata", data, "--username", given["POSTGRES_USER"],
             "--pwfile", password.name, "--auth", "scram-sha-256"],
            check=True, stdout=subprocess.DEVNULL, user=not_root(),
        )  # fmt: skip
    create = f'CREATE DATABASE "{given["POSTGRES_DB"]}"'
    subprocess.run(
        [programs / "postgres", "--single", "-D", data, "postgres"],
        check=True, input=create, text=True, stdout=subprocess.DEVNULL, user=not_root(),
    )  # fmt: skip


def not_root() -> str | None:
    """PostgreSQL will not run as root."""
    return "postgres" if os.getuid() == 0 else None


def run_job(place: Place, words: str) -> int:
    """A job, as `docker compose run --rm job WORDS` would start it."""
    place.mount(place.services["job"])
    began = time.monotonic()
    done = subprocess.run(
        [HERE / "entrypoint", *shlex.split(words)], env=place.environment("job"),
        cwd=place.path(WORKDIR), stderr=(place.folder / "job.log").open("ab"), check=False,
    )  # fmt: skip
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode  # a signal's
    print(f"job {words}: exit code {code} after {time.monotonic() - began:.1f} s", flush=True)
    return code


def main() -> int:
    """Start, run the jobs, stop."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="logs and volumes go there, and stay there")
    parser.add_argument("jobs", nargs="*", help="each a stage with its options, in quotes")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # services end, too
    try:
        services = read_compose((HERE / "compose.yaml").read_text(), os.environ)
        place = Place(args.folder.resolve(), services)
        with contextlib.ExitStack() as stack:
            for name in in_order(services):
                stack.enter_context(running(place, name))
            return max((run_job(place, words) for words in args.jobs), default=0)
    except CannotStart as why:
        print(f"services: {why}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

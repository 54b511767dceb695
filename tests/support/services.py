"""Start the services of docker/compose.yaml as processes of this machine, without Docker.

    ULR_SECRETS=... python -m tests.support.services FOLDER simulate "nightly --date 2026-01-03"

Every service starts in the order of its dependencies, with its own environment, and has to pass
its health check. Then the jobs run one after another, and all services are stopped. Three things
differ from Docker: every service is reached at 127.0.0.1, paths of a container are below FOLDER,
and PostgreSQL is the one installed on this machine. The ports of compose.yaml must be free.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import pyspark
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
ENTRYPOINT = str(DOCKER / "entrypoint")
WORKDIR = re.findall(r"^WORKDIR (\S+)", (DOCKER / "Dockerfile").read_text(), re.M)[-1]
LOOPBACK = "127.0.0.1"
FIRST_WORKER_UI_PORT = 8081  # workers share one address, so each needs its own port
HEALTH_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 30.0


class Service(TypedDict, total=False):
    """The keys of a service in compose.yaml that this module reads."""

    build: dict[str, str]
    command: list[str]
    depends_on: dict[str, dict[str, str]]
    environment: dict[str, Any]
    healthcheck: dict[str, Any]
    networks: list[str]
    ports: list[str]
    profiles: list[str]
    secrets: list[str]
    volumes: list[str]


Services = Mapping[str, Service]


class CannotStart(Exception):
    """A service cannot be started; the message names what is missing."""


def read_compose(text: str, environ: Mapping[str, str]) -> dict[str, Service]:
    """Parse compose.yaml, with ${NAME:-default} and ${NAME:?message} replaced as Compose does."""
    services: dict[str, Service] = _parse(text, environ)["services"]
    return services


def read_secrets(text: str, environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the files of the secrets; a file that does not exist is an error."""
    secrets = {
        name: DOCKER / entry["file"] for name, entry in _parse(text, environ)["secrets"].items()
    }
    for name, path in secrets.items():
        if not path.is_file():
            raise CannotStart(f"there is no secret {name} at {path}; see docker/compose.yaml")
    return secrets


def _parse(text: str, environ: Mapping[str, str]) -> dict[str, Any]:
    def replace(variable: re.Match[str]) -> str:
        name, operator, default_or_message = variable.groups()
        if environ.get(name):
            return environ[name]
        if operator == ":?":
            raise CannotStart(f"{name} is not set; {default_or_message}")
        return default_or_message

    without_comments = re.sub(r"^\s*#.*", "", text, flags=re.M)
    content = re.sub(r"\$\{(\w+)(:[-?])([^}]*)\}", replace, without_comments)
    parsed: dict[str, Any] = yaml.safe_load(content)
    return parsed


def start_order(services: Services) -> list[str]:
    """List the services so that each comes after its dependencies, without those of a profile."""
    order: list[str] = []

    def visit(name: str) -> None:
        for dependency in services[name].get("depends_on", {}):
            visit(dependency)
        if name not in order:
            order.append(name)

    for name, service in services.items():
        if "profiles" not in service:
            visit(name)
    return order


@dataclass(frozen=True)
class Sandbox:
    """Paths and host names of the containers, as they are on this machine."""

    folder: Path
    services: Services
    secrets: Mapping[str, Path] = field(default_factory=dict)

    def path(self, container_path: str) -> Path:
        """Return the path below the folder that stands for a container's path."""
        return self.folder / "root" / container_path.lstrip("/")

    def workdir(self) -> Path:
        """Return the working directory of the image, which is created if need be."""
        path = self.path(WORKDIR)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def mount_volumes(self, service: Service) -> None:
        """Link the volumes and secrets of a service to the paths where its container has them."""
        names = service.get("secrets", [])
        links = {f"/run/secrets/{n}": self.secrets[n] for n in names if n in self.secrets}
        for volume in service.get("volumes", []):
            if ":" not in volume:  # an anonymous one
                self.path(volume).mkdir(parents=True, exist_ok=True)
                continue
            source, target = volume.removesuffix(":ro").split(":")
            if source.startswith((".", "/")):
                content = (DOCKER / source).resolve()
            else:
                content = self.folder / "volumes" / source
                content.mkdir(parents=True, exist_ok=True)
            links[target] = content
        for target, content in links.items():
            link = self.path(target)
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(content)

    def translate(self, key: str, value: Any) -> str:
        """Replace host names and paths of containers in the value of an environment variable."""
        text = str(value)
        if text == "0.0.0.0" or (key.endswith("_HOST") and text in self.services):
            return LOOPBACK
        if text.startswith("/"):
            return str(self.path(text))
        names = "|".join(map(re.escape, self.services))
        return re.sub(rf"(?<![\w-])({names})(?=:\d)", LOOPBACK, text)

    def environment(self, name: str) -> dict[str, str]:
        """Return the variables of a service: those of the image, then those of compose.yaml."""
        private = self.folder / "private" / name
        for subfolder in ("tmp", "spark"):
            (private / subfolder).mkdir(parents=True, exist_ok=True)
        image = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(private),
            "TMPDIR": str(private / "tmp"),
            "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_CONF_DIR": str(private / "spark"),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_WORKER_DIR": str(private / "work"),
            "SPARK_WORKER_WEBUI_PORT": str(FIRST_WORKER_UI_PORT + list(self.services).index(name)),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "ULR_HOME": str(ROOT),
        }
        variables = self.services[name].get("environment", {})
        return image | {key: self.translate(key, value) for key, value in variables.items()}


@contextlib.contextmanager
def running_service(sandbox: Sandbox, name: str) -> Iterator[None]:
    """Run a service: enter when it is healthy, stop it and all its processes on exit."""
    service, environ = sandbox.services[name], sandbox.environment(name)
    sandbox.mount_volumes(service)
    uses_our_image = "build" in service
    if uses_our_image:
        command, check = [ENTRYPOINT, *service["command"]], [ENTRYPOINT, "health"]
    else:
        command, check = postgres_command(sandbox, name), service["healthcheck"]["test"][1:]
    log, started = sandbox.folder / f"{name}.log", time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environ, stdout=output, stderr=output, start_new_session=True,
            cwd=sandbox.workdir(), user=None if uses_our_image else postgres_user(),
        )  # fmt: skip
        try:
            while subprocess.run(check, env=environ, capture_output=True, check=False).returncode:
                if process.poll() is not None or time.monotonic() > started + HEALTH_TIMEOUT_S:
                    raise CannotStart(f"{name} is not healthy: {log.read_text()[-1500:]}")
                time.sleep(0.5)
            print(f"{name}: healthy after {time.monotonic() - started:.1f} s", flush=True)
            yield
        finally:
            stop_process_group(process)


def stop_process_group(process: subprocess.Popen[bytes], timeout: float = STOP_TIMEOUT_S) -> None:
    """Send SIGTERM to a process and its children, and after the timeout SIGKILL."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
        os.killpg(process.pid, signal.SIGKILL)  # children may have outlived their parent
    process.wait()


def postgres_command(sandbox: Sandbox, name: str) -> list[str]:
    """Return the command that runs PostgreSQL; an empty volume is initialised first."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not installed:
        raise CannotStart(
            "PostgreSQL is not installed; on Debian or Ubuntu: apt-get install postgresql"
        )
    programs, data = installed[-1].parent, sandbox.folder / "volumes" / "database"
    if not (data / "PG_VERSION").exists():
        initialise_database(programs, data, sandbox.environment(name))
    return [str(programs / "postgres"), "-D", str(data), "-h", LOOPBACK, "-k", str(data)]


def initialise_database(programs: Path, data: Path, environ: Mapping[str, str]) -> None:
    """Create the user, the password and the database of compose.yaml, as the image would."""
    user = postgres_user()
    with tempfile.NamedTemporaryFile("w") as password:  # readable by its owner only
        password.write(Path(environ["POSTGRES_PASSWORD_FILE"]).read_text())
        password.flush()
        if user:
            for path in (data, Path(password.name)):
                shutil.chown(path, user)
        subprocess.run(
            [programs / "initdb", "--pgdata", data, "--username", environ["POSTGRES_USER"],
             "--pwfile", password.name, "--auth", "scram-sha-256"],
            check=True, stdout=subprocess.DEVNULL, user=user,
        )  # fmt: skip
    subprocess.run(
        [programs / "postgres", "--single", "-D", data, "postgres"],
        input=f'CREATE DATABASE "{environ["POSTGRES_DB"]}"', text=True,
        check=True, stdout=subprocess.DEVNULL, user=user,
    )  # fmt: skip


def postgres_user() -> str | None:
    """Return the user to run PostgreSQL as, since it refuses to run as root."""
    return "postgres" if os.getuid() == 0 else None


def run_job(sandbox: Sandbox, command: str) -> int:
    """Run a job as `docker compose run --rm job COMMAND` would, and return its exit code."""
    sandbox.mount_volumes(sandbox.services["job"])
    started = time.monotonic()
    with (sandbox.folder / "job.log").open("ab") as log:
        code = subprocess.run(
            [ENTRYPOINT, *shlex.split(command)], env=sandbox.environment("job"),
            cwd=sandbox.workdir(), stderr=log, check=False,
        ).returncode  # fmt: skip
    code = code if code >= 0 else 128 - code  # ended by a signal: as a shell reports it
    print(f"job {command}: exit code {code} after {time.monotonic() - started:.1f} s", flush=True)
    return code


def main() -> int:
    """Start the services, run the jobs, stop the services."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("folder", type=Path, help="for logs and volumes, which are kept")
    parser.add_argument("jobs", nargs="*", help="a stage with its options, in quotes")
    args = parser.parse_args()
    # An exception, so that the services are stopped too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        text = (DOCKER / "compose.yaml").read_text()
        services = read_compose(text, os.environ)
        sandbox = Sandbox(args.folder.resolve(), services, read_secrets(text, os.environ))
        with contextlib.ExitStack() as stack:
            for name in start_order(services):
                stack.enter_context(running_service(sandbox, name))
            return max((run_job(sandbox, job) for job in args.jobs), default=0)
    except CannotStart as error:
        print(f"services: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

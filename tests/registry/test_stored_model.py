"""Models that were changed in the artifact store of a real server, by anonymous HTTP requests."""

import hashlib
import json
import os
import pickle
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.support.proxy import FaultProxy
from tests.support.registry_server import local_registry, submission, tracking_server
from ulr.errors import UserError
from ulr.registry import CHAMPION, Registry
from ulr.registry.tags import MODEL_SHA256

pytestmark = pytest.mark.all

# What a process does that loads a model through MLflow's flavour, with MLflow's default settings.
FLAVOUR_LOADER = """
import mlflow.lightgbm, sys
mlflow.set_tracking_uri(sys.argv[1])
mlflow.lightgbm.load_model(sys.argv[2])
"""
ULR = "import sys; from ulr.cli.main import main; sys.exit(main())"
PICKLES = os.environ | {"MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "true"}


class RunsCommand:
    """An object whose unpickling creates a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


class Attacked:
    """A server with a champion, and the means to replace files of its model."""

    def __init__(self, url, folder):
        self.url, self.folder, self.marker = url, folder, folder / "executed"
        self.registry = Registry(url, experiment="tests", name="ranker", retries=0, backoff=0)
        self.version = self.registry.register(submission("f1"))
        self.registry.set_alias(CHAMPION, self.version.version)
        run = self.registry.client.get_run(self.version.run_id)
        self.model_id = run.outputs.model_outputs[0].model_id
        self.text = submission("f1").model

    def put(self, name, content):
        location = self.registry.client.get_logged_model(self.model_id).artifact_location
        path = location.removeprefix("mlflow-artifacts:").lstrip("/")
        address = f"{self.url}/api/2.0/mlflow-artifacts/artifacts/{path}/{name}"
        request = urllib.request.Request(address, content, method="PUT")
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200

    def put_code(self):
        """Let MLmodel name a pickle, and a module that is stored beside it."""
        module = f"import os\nos.mkdir({str(self.marker)!r})\ndef _load_pyfunc(path): pass\n"
        self.put("code/attack.py", module.encode())
        self.put("model.pkl", pickle.dumps(RunsCommand(self.marker)))
        flavors = {
            "lightgbm": {"data": "model.pkl", "model_class": "lightgbm.sklearn.LGBMRanker",
                         "serialization_format": "cloudpickle", "lgb_version": "4", "code": "code"},
            "python_function": {"loader_module": "attack", "code": "code", "data": "model.pkl",
                                "python_version": "3.11"},
        }  # fmt: skip
        content = {"flavors": flavors, "model_uuid": self.model_id, "artifact_path": "model"}
        self.put("MLmodel", yaml.safe_dump(content).encode())

    def score(self, *options):
        """Run `ulr score` as a user would; there are no features, so it stops before Spark."""
        return subprocess.run(
            [sys.executable, "-c", ULR, "score", "--set", f"mlflow.tracking_uri={self.url}",
             "--set", "mlflow.registered_model=ranker", "--set", "mlflow.retries=0",
             "--set", f"warehouse.path={self.folder}/warehouse", "--features", "absent", *options],
            capture_output=True, text=True, cwd=self.folder, timeout=200, check=False,
            env=PICKLES,
        )  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with tracking_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture
def attacked(server, tmp_path):
    target = Attacked(server, tmp_path)
    yield target
    target.registry.client.delete_registered_model("ranker")


def test_a_model_that_names_code_runs_none_and_a_changed_text_is_refused(attacked):
    attacked.put_code()
    loader = [sys.executable, "-c", FLAVOUR_LOADER, attacked.url, "models:/ranker@champion"]
    subprocess.run(loader, capture_output=True, env=PICKLES, timeout=200, check=False)
    assert attacked.marker.exists(), "the attack on MLflow's own loader does not work"
    attacked.marker.rmdir()

    unchanged = attacked.score()
    assert "no features files" in unchanged.stderr or "absent" in unchanged.stderr
    assert attacked.registry.model_text("models:/ranker/1") == attacked.text

    other = submission("f2", seed=7).model  # a valid model
    attacked.put("model.lgb", other.encode())
    refused = attacked.score("--json")
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    want, got = (hashlib.sha256(text.encode()).hexdigest() for text in (attacked.text, other))
    assert "version 1 of ranker was changed after its registration" in line
    assert f"is {got}, expected {want}" in line
    assert json.loads(refused.stdout)["exit_code"] == 2
    assert not attacked.marker.exists()


def test_a_version_without_the_tag_is_checked_and_the_user_is_warned(attacked):
    attacked.registry.client.delete_model_version_tag("ranker", "1", MODEL_SHA256)
    done = attacked.score("--quiet", "--json")
    warning, error = done.stderr.splitlines()
    assert warning.startswith(f"ulr: warning: version 1 of ranker has no tag {MODEL_SHA256}")
    assert "absent" in error
    assert json.loads(done.stdout)["exit_code"] == 2
    attacked.put("model.lgb", attacked.text.replace("left_child=", "left_child=9 ", 1).encode())
    with pytest.raises(UserError, match="is not a valid LightGBM text model"):
        attacked.registry.model_text("models:/ranker@champion")


def test_the_tag_is_the_hash_of_the_stored_bytes_for_every_kind_of_uri(attacked, tmp_path):
    registry, client = attacked.registry, attacked.registry.client
    uris = ("models:/ranker/1", "models:/ranker@champion", "models:/ranker/latest",
            f"models:/{attacked.model_id}", f"runs:/{attacked.version.run_id}/model")  # fmt: skip
    folder = client.get_model_version_download_uri("ranker", "1")
    with registry.connected():
        from mlflow.artifacts import download_artifacts

        path = download_artifacts(f"{folder}/model.lgb", dst_path=str(tmp_path))
    stored = Path(path).read_bytes()
    assert hashlib.sha256(stored).hexdigest() == attacked.version.tags[MODEL_SHA256]
    assert stored == attacked.text.encode()
    warnings = []
    assert {registry.model_text(uri, warnings.append) for uri in uris} == {attacked.text}
    assert warnings == []
    attacked.put("model.lgb", submission("f2", seed=7).model.encode())
    for uri in uris:
        with pytest.raises(UserError, match="was changed after its registration"):
            registry.model_text(uri)


@pytest.mark.parametrize("uri", ["models:/a/b/c", "models:/", "models:/ranker/../x", "runs:/x"])
def test_a_malformed_uri_is_a_clear_error(tmp_path, uri):
    with pytest.raises(UserError, match=r"expected models:/NAME/VERSION"):
        local_registry(tmp_path / "mlflow").model_text(uri)


def test_special_files_and_missing_files_in_a_local_store_are_clear_errors(tmp_path):
    registry = local_registry(tmp_path / "mlflow")
    registry.register(submission("f1"))
    (file,) = (tmp_path / "mlflow").rglob("model.lgb")
    file.unlink()
    with pytest.raises(UserError, match="cannot be read: No such file"):
        registry.model_text("models:/ranker/1")
    os.mkfifo(file)
    with pytest.raises(UserError, match="is not a regular file"):
        registry.model_text("models:/ranker/1")
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(UserError, match="is not a regular file"):
        registry.model_text("models:/ranker/1")


def test_a_tag_that_is_no_hash_is_printed_without_control_characters(tmp_path):
    registry = local_registry(tmp_path / "mlflow")
    registry.register(submission("f1"))
    registry.client.set_model_version_tag("ranker", "1", MODEL_SHA256, "\x1b[2J")
    with pytest.raises(UserError, match=r"expected '\\x1b\[2J'"):
        registry.model_text("models:/ranker/1")


def test_credentials_that_the_server_refuses_are_a_mistake_of_the_user(server):
    body = b"You are not authenticated. Please see https://www.mlflow.org/docs/latest/auth"
    answer = b"HTTP/1.1 401 UNAUTHORIZED\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with FaultProxy(server) as proxy:
        proxy.add("replace answer", "/", times=100, answer=answer)
        registry = Registry(proxy.url, experiment="tests", name="ranker", retries=0, backoff=0)
        for request in (registry.versions, lambda: registry.register(submission("f1"))):
            with pytest.raises(UserError, match="MLFLOW_TRACKING_USERNAME") as error:
                request()
            assert error.value.exit_code == 2

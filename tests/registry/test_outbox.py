"""Damaged files in the outbox: each is named and kept, and the others are sent."""

import json
from dataclasses import asdict

import pytest

from tests.support.registry_server import local_registry, promote_settings, submission
from ulr.cli.main import main
from ulr.registry.outbox import FOLDER, queued, sync
from ulr.registry.outbox_entry import DamagedEntry, entry_of, read_entry
from ulr.registry.promotion import promote
from ulr.registry.submission import Submission
from ulr.warehouse.tables import Warehouse

SETTINGS = promote_settings(min_effective_clicks=0, diagnostics="ignore")


def entry(**changes):
    return json.dumps(asdict(submission("f1")) | changes).encode()


def without(key):
    return json.dumps({k: v for k, v in asdict(submission("f1")).items() if k != key}).encode()


def altered():
    content = entry_of(submission("f1"))
    content["metrics"]["ndcg_at_10"] = 0.9
    return json.dumps(content).encode()


WHOLE = json.dumps(entry_of(submission("f1"))).encode()
DAMAGED = {
    "empty": (b"", "is not JSON"),
    "truncated": (WHOLE[: len(WHOLE) // 2], "is not JSON"),
    "zeros": (bytes(len(WHOLE)), "is not JSON"),
    "not UTF-8": (b"\xff\xfe{}", "is not JSON"),
    "nested": (b"[" * 200_000, "is not JSON"),
    "a list": (b"[1, 2]", "not a JSON object but list"),
    "null": (b"null", "not a JSON object"),
    "altered": (altered(), "does not match its SHA-256"),
    "altered model": (
        entry(model=submission("f1").model.replace("left_child=", "left_child=99 ", 1)),
        "is not a valid LightGBM text model",
    ),
    "wrong type": (entry(metrics={"a": "x"}), r"metrics\.a"),
    "a number": (entry(model=5), "model: Input should be a valid string"),
    "no model": (without("model"), "model: Field required"),
    "escaping file": (entry(files={"../../x": "1"}), "is not the name of a file"),
    "absolute file": (entry(files={"/tmp/x": "1"}), "is not the name of a file"),
    "other fingerprint": (entry(fingerprint="f9"), "fingerprint is 'f9'"),
    "no tags": (entry(tags={"ulr.fingerprint": "f1"}), r"tag ulr\.method is missing"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_entry_is_refused_with_the_reason(kind):
    content, message = DAMAGED[kind]
    with pytest.raises(DamagedEntry, match=message):
        read_entry(content, "f1")


def test_an_entry_is_read_back_whole_also_one_of_an_earlier_version():
    assert read_entry(WHOLE, "f1") == submission("f1")
    assert read_entry(entry(), "f1") == submission("f1")  # without a hash
    assert isinstance(read_entry(entry(), "f1"), Submission)


@pytest.fixture
def outbox(tmp_path):
    """A registry, and a warehouse with two whole entries between damaged ones."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    for name, content in (("a", b""), ("b", WHOLE[:500]), ("z", b"{}")):
        path = tmp_path / "warehouse" / FOLDER / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for fingerprint in ("f1", "f2"):
        content = entry_of(submission(fingerprint))
        warehouse.storage.write_json(content, FOLDER, f"{fingerprint}.json")
    return local_registry(tmp_path / "mlflow"), warehouse


def test_damaged_entries_do_not_block_the_others_and_are_kept(outbox):
    registry, warehouse = outbox
    versions, damaged = sync(registry, warehouse)
    assert [version.tags["ulr.fingerprint"] for version in versions] == ["f1", "f2"]
    assert queued(warehouse) == ["a", "b", "z"]
    assert [message.partition(".json")[0][-1] for message in damaged] == ["a", "b", "z"]
    assert all("delete the file" in message for message in damaged)


def test_a_promotion_goes_on_and_warns(outbox):
    registry, warehouse = outbox
    warnings = []
    decision = promote(
        registry, warehouse, submission("f3"), None, SETTINGS, published_propensities=False,
        force="a test", warn=warnings.append,
    )  # fmt: skip
    assert (decision.outcome, decision.version) == ("promoted", 3)
    assert len(warnings) == 3


def test_the_command_names_every_damaged_entry_and_returns_exit_code_3(outbox, tmp_path, capsys):
    _, warehouse = outbox
    options = ["--set", f"warehouse.path={warehouse.storage.url}", "--set",
               f"mlflow.local_path={tmp_path}/mlflow", "--set", "mlflow.registered_model=ranker",
               "--set", "mlflow.experiment=tests", "--json"]  # fmt: skip
    assert main(["registry", "sync", *options]) == 3
    printed = capsys.readouterr()
    assert [line.partition(".json")[0][-1] for line in printed.err.splitlines()] == ["b", "z", "a"]
    document = json.loads(printed.out)
    assert [version["version"] for version in document["sent"]] == [1, 2]
    assert len(document["damaged"]) == 3

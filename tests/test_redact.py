from __future__ import annotations

import pytest

from ulr.redact import HIDDEN, is_secret, redact, redact_text


@pytest.mark.parametrize(
    "name",
    ["spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key", "spark.ssl.keyPassword",
     "spark.hadoop.fs.azure.account.key.box", "spark.hadoop.fs.s3a.encryption.key",
     "spark.hadoop.fs.gs.auth.service.account.private.key", "api_key"],
)  # fmt: skip
def test_a_secret_setting_is_hidden(name):
    assert redact({name: "open", "groups.partitions": "8"}) == {
        name: HIDDEN, "groups.partitions": "8",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("address", "shown"),
    [("postgresql://me:word@host/db", "postgresql://***@host/db"),
     ("postgresql://me:w@rd@host/db", "postgresql://***@host/db"),
     ("https://host/a@b?sig=x&page=2", "https://host/a@b?sig=***&page=2"),
     ("s3://bucket?access_key=x&secret_key=y", "s3://bucket?access_key=***&secret_key=***")],
)  # fmt: skip
def test_a_url_is_shown_without_its_passwords(address, shown):
    assert redact({"path": address}) == {"path": shown}


def test_nested_settings_and_lists_are_redacted():
    settings = {
        "log": {"path": "s3://KEY:sec/ret@bucket/log", "columns": ["a", "b"]},
        "spark": {"hadoop": {"fs": {"s3a": {"access": {"key": "x"}}}}, "cores": 2},
        "mlflow": {"token": None, "password": 7},
        "inputs": [["https://u:p@host/x", 3], ("s3://b?secret_key=y", 1.5)],
    }
    assert redact(settings) == {
        "log": {"path": "s3://***@bucket/log", "columns": ["a", "b"]},
        "spark": {"hadoop": {"fs": {"s3a": {"access": {"key": HIDDEN}}}}, "cores": 2},
        "mlflow": {"token": None, "password": HIDDEN},
        "inputs": [["https://***@host/x", 3], ("s3://b?secret_key=***", 1.5)],
    }
    assert settings["mlflow"]["password"] == 7


@pytest.mark.parametrize(
    ("text", "shown"),
    [("cannot open 's3://KEY:a/b+c@bucket/x': denied", "cannot open 's3://***@bucket/x': denied"),
     ("see http://host:5000/models/a@champion", "see http://host:5000/models/a@champion"),
     ("see http://host:5000", "see http://host:5000"),
     ("--set spark.authenticate.secret=abc: wrong", "--set spark.authenticate.secret=*** wrong"),
     ("AccountName=me;AccountKey=abc==;Suffix=x", "AccountName=me;AccountKey=***;Suffix=x"),
     ("401 for Authorization: Basic dXNlcjpwYXNz", "401 for Authorization: Basic ***"),
     ("models:/ulr-ranker@champion", "models:/ulr-ranker@champion"),
     ("100 tokens of 3 keys", "100 tokens of 3 keys")],
)  # fmt: skip
def test_passwords_in_a_message_are_hidden_and_the_rest_is_kept(text, shown):
    assert redact_text(text) == shown
    assert redact_text(shown) == shown


def test_a_setting_is_secret_by_its_name_or_by_its_value():
    assert is_secret("ssl.rpc.keyPassword", "x")
    assert is_secret("eventLog.dir", "s3://key:word@bucket")
    assert not is_secret("driver.memory", "2g")

from __future__ import annotations

import pytest

from ulr.redact import HIDDEN, redact


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

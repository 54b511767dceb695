"""Conditional requests to an object store: s3, gs and abfs.

Arrow reads and writes the data; it has no conditional writes. The client here is configured from
the options of Arrow's filesystem, so one URL configures both. Credentials that the URL does not
give come from the environment, from the platform's metadata service, or from the AWS profile that
Arrow would use.
"""

from __future__ import annotations

import configparser
import importlib
import importlib.util
import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import obstore
import pyarrow.fs as pafs
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from ulr.errors import TemporaryFailure, UserError
from ulr.warehouse.filesystem import PreconditionFailed, arrow_url

_RETRIES: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
# By Arrow's name of the filesystem.
KINDS = {"s3": "S3", "gcs": "Google Cloud Storage", "abfs": "Azure"}


class ObjectStore:
    """One bucket; paths are those of Arrow's filesystem, BUCKET/KEY."""

    def __init__(self, url: str, fs: pafs.FileSystem, bucket: str) -> None:
        self._bucket, self._kind = bucket, KINDS[fs.type_name]
        self._store: Any = _OPEN[fs.type_name](url, fs, bucket)

    def read(self, path: str) -> tuple[bytes, str] | None:
        """Return content and ETag of an object from one request; None if it does not exist."""
        try:
            result = obstore.get(self._store, self._key(path))
            return bytes(result.bytes()), str(result.meta["e_tag"])
        except FileNotFoundError:
            return None
        except BaseError as error:
            raise self._failure(error) from None

    def write(self, path: str, content: bytes, expected: str | None) -> str:
        """Write an object and return its ETag.

        expected: ETag of the version to replace; None: the object must not exist. Raises
        PreconditionFailed if the store holds another version.
        """
        mode: Any = "create" if expected is None else {"e_tag": expected}
        try:
            return str(obstore.put(self._store, self._key(path), content, mode=mode)["e_tag"])
        except (AlreadyExistsError, PreconditionError):
            # The answer to an earlier attempt of this request may have been lost.
            current = self.read(path)
            if current is not None and current[0] == content:
                return current[1]
            raise PreconditionFailed(path) from None
        except BaseError as error:
            raise self._failure(error) from None

    def _key(self, path: str) -> str:
        return path.removeprefix(f"{self._bucket}/")

    def _failure(self, error: Exception) -> UserError:
        reason = str(error).partition("\n")[0][:300]
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            return UserError(
                f"{self._kind} bucket {self._bucket} refuses access: {reason}; give credentials "
                "that may read and write it, in the URL or in the environment"
            )
        return TemporaryFailure(f"{self._kind} bucket {self._bucket} does not answer: {reason}")


def _options(fs: pafs.FileSystem) -> dict[str, Any]:
    """Return the options that Arrow's filesystem was opened with."""
    options: dict[str, Any] = fs.__reduce__()[1][0]  # what pickling a filesystem keeps
    return {name: value for name, value in options.items() if value}


def _open_s3(url: str, fs: pafs.FileSystem, bucket: str) -> S3Store:
    options = _options(fs)
    settings: dict[str, Any] = {"region": fs.region} if fs.region else {}
    scheme = options.get("scheme", "https")
    if endpoint := options.get("endpoint_override"):
        host = endpoint.partition("://")[2] or endpoint
        virtual = bool(options.get("force_virtual_addressing"))
        settings["endpoint"] = f"{scheme}://{bucket}.{host}" if virtual else f"{scheme}://{host}"
        settings["virtual_hosted_style_request"] = virtual
    if options.get("anonymous"):
        settings["skip_signature"] = True
    elif key := options.get("access_key"):
        settings |= {"access_key_id": key, "secret_access_key": options["secret_key"]}
        if token := options.get("session_token"):
            settings["session_token"] = token
    else:
        settings |= _profile()
    return S3Store(bucket, client_options={"allow_http": scheme == "http"},
                   retry_config=_RETRIES, **settings)  # fmt: skip


def _profile() -> dict[str, Any]:
    """Return the credentials of the AWS profile, which the client does not read itself.

    botocore, if it is installed, resolves every kind of profile; otherwise static keys are read.
    """
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return {}
    if importlib.util.find_spec("boto3"):
        session = importlib.import_module("boto3").Session()
        if session.get_credentials() is None:
            return {}
        providers = importlib.import_module("obstore.auth.boto3")
        return {"credential_provider": providers.Boto3CredentialProvider(session)}
    parser = configparser.ConfigParser()
    default = Path.home() / ".aws" / "credentials"
    parser.read(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", default))
    section = os.environ.get("AWS_PROFILE", "default")
    names = {"aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key",
             "aws_session_token": "session_token"}  # fmt: skip
    found = dict(parser[section]) if parser.has_section(section) else {}
    return {names[name]: value for name, value in found.items() if name in names}


def _open_gcs(url: str, fs: pafs.FileSystem, bucket: str) -> GCSStore:
    options = _options(fs)
    scheme = options.get("scheme", "https")
    settings: dict[str, Any] = {}
    if endpoint := options.get("endpoint_override"):
        settings["base_url"] = f"{scheme}://{endpoint.partition('://')[2] or endpoint}"
    if options.get("anonymous"):
        settings["skip_signature"] = True
    return GCSStore(bucket, client_options={"allow_http": scheme == "http"},
                    retry_config=_RETRIES, **settings)  # fmt: skip


def _open_azure(url: str, fs: pafs.FileSystem, bucket: str) -> AzureStore:
    options = _options(fs)
    parts = urlsplit(arrow_url(url))
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    account = options["account_name"]
    settings: dict[str, Any] = {"account_name": account}
    if parts.password:
        settings["account_key"] = unquote(parts.password)
    for name in ("client_id", "client_secret", "tenant_id"):
        if value := query.get(name):
            settings[name] = value
    scheme = "http" if query.get("enable_tls", "true") == "false" else "https"
    authority = options["blob_storage_authority"]
    if authority.startswith("."):
        settings["endpoint"] = f"{scheme}://{account}{authority}"
    else:  # an emulator: the account is part of the path
        settings["endpoint"] = f"{scheme}://{authority}/{account}"
    return AzureStore(bucket, client_options={"allow_http": scheme == "http"},
                      retry_config=_RETRIES, **settings)  # fmt: skip


_OPEN = {"s3": _open_s3, "gcs": _open_gcs, "abfs": _open_azure}

"""The only room that knows MLflow: submit, gate, promote.

In: a trained model with its totals and diagnostics. A training is one MLflow run and one version of
the registered model; its fingerprint is a tag, so that it is registered once. The aliases are
`challenger` and `champion`. Out: runs, versions, aliases, and the outbox in the warehouse for
models that wait for an unreachable server.
Imports rooms up to report.
"""

import os

# A library must not send usage statistics to a third party.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
# Under spark-submit stdout may have to be exactly one JSON document.
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
# Models are read as text; MLflow must not unpickle one either, even if the user has allowed it.
os.environ["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] = "false"

from ulr.registry.client import CHALLENGER, CHAMPION, RegisteredVersion, Registry

__all__ = ["CHALLENGER", "CHAMPION", "RegisteredVersion", "Registry"]

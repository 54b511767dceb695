"""The model registry: the only room that knows MLflow.

Names and meanings are MLflow's: a run per training, a version per run, aliases `challenger` and
`champion`. A training is registered once: its fingerprint is a tag that is looked for first.
"""

import os

# Usage statistics to a third party are not for a library to switch on.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
# Under spark-submit stdout goes to the screen, and may have to be one JSON document.
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

from ulr.registry.client import CHALLENGER, CHAMPION, Registered, Registry

__all__ = ["CHALLENGER", "CHAMPION", "Registered", "Registry"]

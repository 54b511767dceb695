"""Parameters by LightGBM's and scikit-learn's names as settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from ulr.config.settings import Settings
from ulr.errors import UserError
from ulr.training.parameters import main_name, override

# Parameters that are settings under another name or section.
_NAMES = {
    "n_estimators": "train.num_iterations",
    "early_stopping_rounds": "train.early_stopping_round",
    "method": "pairs.method",
}
_OF_TRAINING = ("num_iterations", "early_stopping_round")  # under any of LightGBM's names
_SECTIONS = ("groups", "pairs", "train")
_NOT_SETTINGS = ("propensities", "importance_type", "random_state", "partitions")


def merged_settings(settings: Settings, params: Mapping[str, Any]) -> Settings:
    """Return the settings changed by parameters; None is the default, other names are LightGBM's.

    random_state becomes `seed`.
    """
    values = settings.model_dump()
    lightgbm: dict[str, Any] = {}
    named: dict[str, str] = {}
    for name, value in params.items():
        if value is None or name in _NOT_SETTINGS:
            continue
        place = _NAMES.get(name) or _place(settings, name)
        if (other := named.setdefault(place, name)) != name:
            raise UserError(f"{other} and {name} are two names for one setting; set one of them")
        section, _, key = place.partition(".")
        if section == "lightgbm":
            lightgbm[key] = value
        else:
            values[section][key] = value
    if params.get("random_state") is not None:
        lightgbm["seed"] = _seed(params["random_state"])
    if "n_jobs" in lightgbm:  # scikit-learn's -1 is LightGBM's 0
        lightgbm["n_jobs"] = max(int(lightgbm["n_jobs"]), 0)
    values["lightgbm"] = override(settings.lightgbm, lightgbm)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"][:2]))
        name = named.get(place, place.rpartition(".")[2])
        raise UserError(f"{name} = {problem['input']!r}: {problem['msg'].lower()}") from None


def _place(settings: Settings, name: str) -> str:
    for section in _SECTIONS:
        if name in type(getattr(settings, section)).model_fields:
            return f"{section}.{name}"
    main = main_name(name)
    return f"train.{main}" if main in _OF_TRAINING else f"lightgbm.{name}"


def _seed(random_state: Any) -> int:
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(random_state)

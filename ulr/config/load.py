"""Loading settings: `base.yaml`, then an overlay, then `--set section.key=value`.

Every error is one line that names the key, where it was given, and what would do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from ulr.config.settings import Settings
from ulr.errors import UserError


def conf_folder() -> Traversable:
    """Where base.yaml is: in the package when installed, zipped or not; in a checkout beside it."""
    inside = resources.files("ulr") / "conf"
    return inside if inside.is_dir() else Path(__file__).resolve().parents[2] / "conf"


def load_settings(overlay: str | None, changes: Iterable[str] = ()) -> Settings:
    """Read base.yaml, the overlay and the changes, in that order of rising precedence."""
    given: dict[str, str] = {}
    values: dict[str, Any] = {}
    base = conf_folder() / "base.yaml"
    for path in [base, Path(overlay) if overlay else conf_folder() / "local.yaml"]:
        _merge(values, _read_yaml(path), str(path), given)
    for change in changes:
        _merge(values, _parse_change(change), f"--set {change}", given)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise UserError(_one_line(error, values, given, str(base))) from None


def default_settings() -> Settings:
    """base.yaml alone."""
    return Settings.model_validate(_read_yaml(conf_folder() / "base.yaml"))


def _read_yaml(path: Traversable) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as why:
        raise UserError(f"cannot read settings {path}: {why.strerror}; see --conf") from None
    except UnicodeDecodeError as why:
        raise UserError(f"{path} is not UTF-8 text: {why.reason}; see --conf") from None
    except yaml.YAMLError as why:
        raise UserError(f"{path} is not YAML: {' '.join(str(why).split())}") from None
    if not isinstance(content or {}, dict):
        raise UserError(f"{path}: expected sections with keys, found {type(content).__name__}")
    return content or {}


def _parse_change(change: str) -> dict[str, Any]:
    """`a.b.c=value` as nested sections; Spark's own keys keep their dots."""
    key, equals, text = change.partition("=")
    parts = key.split(".", 1) if key.startswith("spark.") else key.split(".")
    if not equals or len(parts) < 2 or not all(parts):
        raise UserError(f"--set {change}: expected section.key=value, as in groups.partitions=16")
    try:
        value: Any = yaml.safe_load(text)
    except yaml.YAMLError:
        raise UserError(f"--set {change}: {text!r} is not a YAML value") from None
    for part in reversed(parts):
        value = {part: value}
    return value


def _merge(into: dict[str, Any], add: dict[str, Any], origin: str, given: dict[str, str],
           prefix: str = "") -> None:  # fmt: skip
    for key, value in add.items():
        name = f"{prefix}{key}"
        given[name] = origin
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value, origin, given, f"{name}.")
        else:
            into[key] = value
            _note_children(value, name, origin, given)


def _note_children(value: Any, name: str, origin: str, given: dict[str, str]) -> None:
    if isinstance(value, dict):
        for key, child in value.items():
            given[f"{name}.{key}"] = origin
            _note_children(child, f"{name}.{key}", origin, given)


def _one_line(
    error: ValidationError, values: dict[str, Any], given: dict[str, str], base: str
) -> str:
    """The first problem in plain words; pydantic's other lines follow from it or come next time."""
    problem = error.errors()[0]
    missing = problem["type"] == "missing"
    loc = [str(p) for p in (problem["loc"] if missing else _known(problem["loc"], values))]
    key = ".".join(loc)
    origin = next(
        (given[".".join(loc[:n])] for n in range(len(loc), 0, -1) if ".".join(loc[:n]) in given),
        base,
    )
    if problem["type"] == "extra_forbidden":
        allowed = _allowed_keys(loc[:-1])
        near = difflib.get_close_matches(loc[-1], allowed, n=1)
        hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(allowed)}"
        return f"{origin}: unknown key {key}; {hint}"
    if missing:
        return f"{origin}: missing key {key}; base.yaml has it, was a section emptied?"
    message = problem["msg"].removeprefix("Value error, ")
    # A rule about a whole section names its keys itself; all their values would hide it.
    was = "" if isinstance(problem["input"], dict) else f" = {problem['input']!r}"
    return f"{origin}: {key}{was}: {message[0].lower()}{message[1:]}"


def _known(loc: tuple[int | str, ...], values: Any) -> list[int | str]:
    """The part of pydantic's path that the settings have; it adds the types that it tried."""
    found: list[int | str] = []
    for part in loc:
        inside = isinstance(part, int) if isinstance(values, list) else isinstance(values, dict)
        if not inside or (isinstance(values, dict) and part not in values):
            break
        found.append(part)
        values = values[part]
    return found


def _allowed_keys(path: list[str]) -> list[str]:
    model: Any = Settings
    for part in path:
        annotation = model.model_fields[part].annotation if part in model.model_fields else model
        inner = getattr(annotation, "__args__", (annotation,))[0]
        model = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else model
    return list(model.model_fields)


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as `section.key`."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = str(value)
    return found

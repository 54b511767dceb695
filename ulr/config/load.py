"""Load settings: `base.yaml`, then an overlay, then `--set section.key=value`.

Every error is one line with the key, where it was set, and what is allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ValidationError

from ulr.config.settings import Settings
from ulr.errors import UserError

if TYPE_CHECKING:
    from importlib.abc import Traversable  # Python 3.11 and later: importlib.resources.abc


def conf_folder() -> Traversable:
    """Return the folder of base.yaml: in the installed package or its zip, or in the checkout."""
    installed = resources.files("ulr") / "conf"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "conf"


_SCALARS = ("engine",)  # settings that are in no section
# Of these settings one is the source. A layer that sets one of them unsets those of earlier layers.
_ONE_OF = {("log",): ("path", "table", "sql"), ("log", "views", "*"): ("path", "table")}


def load_settings(
    overlay: str | Path | Sequence[str] | None, changes: Iterable[str] = ()
) -> Settings:
    """Return the settings of base.yaml, the overlays and the changes; later values override.

    overlay: paths or names of overlays, local.yaml if there is none. An overlay of conf/logs, such
    as `ubi`, describes a log only: local.yaml comes before it, if there is no other overlay.
    changes: `section.key=value`.
    """
    origins: dict[str, str] = {}
    values: dict[str, Any] = {}
    base = conf_folder() / "base.yaml"
    for path in [base, *_overlays(overlay)]:
        _add_layer(values, _read_yaml(path), str(path), origins)
    for change in changes:
        _add_layer(values, _parse_change(change), f"--set {change}", origins)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise UserError(_first_problem(error, values, origins, str(base))) from None


def _overlays(overlay: str | Path | Sequence[str] | None) -> list[Traversable]:
    names = [str(overlay)] if isinstance(overlay, str | Path) else list(overlay or ())
    paths = [_overlay(name) for name in names]
    if all(conf_folder() / "logs" / path.name == path for path in paths):
        paths.insert(0, conf_folder() / "local.yaml")
    return paths


def _overlay(name: str) -> Traversable:
    """Return an overlay by its path, or by the name of one in conf or conf/logs."""
    if "/" in name or "." in name or Path(name).exists():
        return Path(name)
    folders = (conf_folder(), conf_folder() / "logs")
    for folder in folders:
        if (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
    names = sorted(
        f.name.removesuffix(".yaml")
        for folder in folders
        for f in folder.iterdir()
        if f.name.endswith(".yaml") and f.name != "base.yaml"
    )
    raise UserError(f"--conf {name}: expected a path, or one of {', '.join(names)}")


def _add_layer(
    values: dict[str, Any], layer: dict[str, Any], origin: str, origins: dict[str, str]
) -> None:
    for section, names in _ONE_OF.items():
        _unset_others(values, layer, section, names)
    _merge(values, layer, origin, origins)


def _unset_others(
    values: dict[str, Any], layer: dict[str, Any], path: Sequence[str], names: Sequence[str]
) -> None:
    """Set to null what a layer replaces: of `names`, those that it does not set itself."""
    if path:
        for part in layer if path[0] == "*" else path[:1]:
            old, new = values.get(part), layer.get(part)
            if isinstance(old, dict) and isinstance(new, dict):
                _unset_others(old, new, path[1:], names)
    elif any(layer.get(name) is not None for name in names):
        values.update({name: None for name in names if name in values and name not in layer})


def default_settings() -> Settings:
    """Return the settings of base.yaml, without an overlay."""
    return Settings.model_validate(_read_yaml(conf_folder() / "base.yaml"))


def _read_yaml(path: Traversable) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read settings {path}: {error.strerror}; see --conf") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error.reason}; see --conf") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content or {}, dict):
        raise UserError(f"{path}: expected sections with keys, got {type(content).__name__}")
    return content or {}


def _parse_change(change: str) -> dict[str, Any]:
    """Return `a.b.c=value` as nested sections; keys of `spark` keep their dots."""
    key, equals, text = change.partition("=")
    parts = key.split(".", 1) if key.startswith("spark.") else key.split(".")
    if not equals or not all(parts) or (len(parts) < 2 and key not in _SCALARS):
        raise UserError(f"--set {change}: expected section.key=value, as in groups.partitions=16")
    try:
        value: Any = yaml.safe_load(text)
    except yaml.YAMLError:
        raise UserError(f"--set {change}: {text!r} is not a YAML value") from None
    for part in reversed(parts):
        value = {part: value}
    return value


def _merge(into: dict[str, Any], add: dict[str, Any], origin: str, origins: dict[str, str],
           prefix: str = "") -> None:  # fmt: skip
    """Override values in place, and record the origin of every key."""
    for key, value in add.items():
        name = f"{prefix}{key}"
        origins[name] = origin
        if isinstance(value, dict):
            if not isinstance(into.get(key), dict):
                into[key] = {}
            _merge(into[key], value, origin, origins, f"{name}.")
        else:
            into[key] = value


def _first_problem(
    error: ValidationError, values: dict[str, Any], origins: dict[str, str], base: str
) -> str:
    """Return the first validation error as one line.

    The others are consequences of it, or are reported by the next run.
    """
    problem = error.errors()[0]
    missing = problem["type"] == "missing"
    loc = [str(p) for p in (problem["loc"] if missing else _existing(problem["loc"], values))]
    key = ".".join(loc)
    sections = [".".join(loc[:n]) for n in range(len(loc), 0, -1)]
    origin = next((origins[name] for name in sections if name in origins), base)
    if problem["type"] == "extra_forbidden":
        allowed = _allowed_keys(loc[:-1])
        matches = difflib.get_close_matches(loc[-1], allowed, n=1)
        hint = f"did you mean {matches[0]}?" if matches else f"allowed: {', '.join(allowed)}"
        return f"{origin}: unknown key {key}; {hint}"
    if missing:
        return f"{origin}: missing key {key}; add it as in base.yaml"
    messages = [
        other["msg"].removeprefix("Value error, ")
        for other in error.errors()
        if [str(p) for p in _existing(other["loc"], values)] == loc  # a value of several types
    ]
    message = " or ".join(dict.fromkeys(m[0].lower() + m[1:] for m in messages))
    # If the input is a whole section, the message contains the keys; the values are omitted.
    value = "" if isinstance(problem["input"], dict) else f" = {problem['input']!r}"
    return f"{origin}: {key}{value}: {message}"


def _existing(loc: tuple[int | str, ...], values: Any) -> list[int | str]:
    """Return the part of pydantic's path that exists in `values`.

    The path may end with the types that pydantic tried.
    """
    path: list[int | str] = []
    for part in loc:
        has_parts = isinstance(part, int) if isinstance(values, list) else isinstance(values, dict)
        if not has_parts or (isinstance(values, dict) and part not in values):
            break
        path.append(part)
        values = values[part]
    return path


def _allowed_keys(path: list[str]) -> list[str]:
    model: Any = Settings
    for part in path:
        annotation = model.model_fields[part].annotation if part in model.model_fields else model
        inner = getattr(annotation, "__args__", (annotation,))[0]
        model = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else model
    return list(model.model_fields)


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested settings as a flat mapping of `section.key` to text."""
    values: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            values |= flat(value, f"{prefix}{key}.")
        else:
            values[f"{prefix}{key}"] = str(value)
    return values

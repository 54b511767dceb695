"""Print docs/settings.md: a table per section of conf/base.yaml, with its comments.

    python docs/settings.py > docs/settings.md      # or: make docs

A comment behind a setting is its meaning; it lists the values of a choice. Types and bounds come
from ulr/config/settings.py.
"""

from __future__ import annotations

import datetime as dt
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from ulr.config.settings import Settings

BASE = Path(__file__).parent.parent / "conf" / "base.yaml"
HEAD = """\
# Settings

Every setting with its default. `make docs` generates this page from `conf/base.yaml`.
An overlay file (`--conf FILE`) overrides some settings, `--set section.key=value` a single one.
`ulr config` prints the resolved settings."""
LINE = re.compile(
    r"^(?P<indent> *)(?:- (?P<item>.+?)|(?P<key>[\w.]+):(?: +(?P<value>[^ #].*?))?)"
    r"(?: +# (?P<note>.+))?$"
)
TABLE = ["| setting | default | type | meaning |", "|---|---|---|---|"]
NAMES = {int: "integer", float: "number", str: "text", bool: "true or false", dt.date: "date"}
BOUNDS = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "below {}"}


@dataclass
class Setting:
    """One line of base.yaml. A section has no default."""

    path: list[str]
    default: str
    meaning: str
    items: list[str] = field(default_factory=list)


def settings_in(text: str) -> list[Setting]:
    """Return sections and settings in the order of the file."""
    settings: list[Setting] = []
    path: list[str] = []
    for line in text.splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        note = match["note"] or ""
        if match["item"]:  # belongs to the list above
            settings[-1].items.append(match["item"])
            settings[-1].meaning = "; ".join(filter(None, [settings[-1].meaning, note]))
            continue
        path = [*path[: len(match["indent"]) // 2], match["key"]]
        settings.append(Setting(path, match["value"] or "", note))
    return settings


def type_of(path: list[str]) -> str:
    """Return the type and bounds of a setting; empty for a section and for free keys."""
    model: Any = Settings
    for key in path[:-1]:
        model = model.model_fields[key].annotation
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return ""  # spark and lightgbm: any key
    info = model.model_fields[path[-1]]
    return " or ".join(_types(info.annotation, info.metadata))


def _types(annotation: Any, metadata: Any = ()) -> Iterator[str]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        yield from _types(inner, [m for info in metadata for m in info.metadata])
    elif origin in (Union, types.UnionType):
        for inner in get_args(annotation):
            yield from _types(inner, metadata)
    elif origin is Literal:
        yield "choice"
    elif origin in (list, dict):
        yield "list" if origin is list else "map"
    elif annotation is types.NoneType:
        yield "null"
    elif annotation in NAMES:
        bounds = [
            text.format(f"{getattr(m, name):g}")
            for m in metadata
            for name, text in BOUNDS.items()
            if hasattr(m, name)
        ]
        yield " ".join([NAMES[annotation], *bounds])


def page(text: str) -> str:
    """Return the page for the text of base.yaml."""
    lines = [HEAD]
    for setting in settings_in(text):
        if len(setting.path) == 1 and not setting.default:
            meaning = setting.meaning
            lines += ["", f"## {setting.path[0]}", ""]
            lines += [f"{meaning[0].upper()}{meaning[1:]}.", ""] if meaning else []
            lines += TABLE
        elif setting.default or setting.items:
            if lines == [HEAD]:  # settings outside a section
                lines += ["", *TABLE]
            default = setting.default or f"[{', '.join(setting.items)}]"
            name = ".".join(setting.path[1:] or setting.path)
            meaning = setting.meaning.replace("|", "\\|")
            lines.append(f"| `{name}` | `{default}` | {type_of(setting.path)} | {meaning} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(BASE.read_text()), end="")

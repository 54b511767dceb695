"""A page: one HTML file that loads nothing, the same bytes for the same facts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Generic, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ulr.report.facts import COMPARE, NIGHT, RERUN, Facts, Missing
from ulr.report.format import count, plural, visible
from ulr.report.metrics import training_dates
from ulr.report.sections import (
    browsing,
    contest,
    data,
    diagnostics,
    examination,
    importance,
    learning,
    methods,
    positions,
    setup,
    verdict,
    weights,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Section(Generic[T]):
    """A section. key: its id on the page and the name of its template."""

    key: str
    title: str
    context: Callable[[T], dict[str, Any]]


_SECTIONS = [
    Section("examination", "Examination by position", examination.context),
    Section("browsing", "Examination by pair of positions", browsing.context),
    Section("diagnostics", "Diagnostics", diagnostics.context),
    Section("weights", "Weight health", weights.context),
    Section("learning", "Learning curves", learning.context),
    Section("importance", "Feature importance", importance.context),
    Section("positions", "Average position after re-ranking", positions.context),
    Section("data", "Data", data.context),
    Section("setup", "Settings and versions", setup.context),
]
_CONTEST = Section("contest", "Champion and challenger", contest.context)
_METHODS = Section("methods", "Methods compared", methods.context)
_TITLES = {NIGHT: "Night of {}", RERUN: "Re-run {}", COMPARE: "Comparison over {}"}


def sections_of(kind: str) -> list[Section[Facts]]:
    """Return the sections of a night, a re-run or a comparison, in the order of the page."""
    return [_CONTEST if kind == NIGHT else _METHODS, *_SECTIONS]


def page(facts: Facts) -> str:
    """Return the page of a run."""
    return document(
        facts,
        sections_of(facts.kind),
        title=_TITLES[facts.kind].format(facts.name),
        dates=_dates(facts),
        heading=verdict.sentence(facts),
        summary=Section("verdict", "", verdict.context),
        version=facts.versions.get("ulr", ""),
        command=f"ulr report {facts.report_name}",
    )


def document(
    content: T,
    sections: Sequence[Section[T]],
    *,
    title: str,
    dates: str,
    heading: str,
    summary: Section[T],
    version: str,
    command: str,
) -> str:
    """Return a whole page. summary: of its header. command: what writes this page again."""
    templates = _environment()
    style, script = _asset("page.css") + _asset("chart.css"), _asset("page.js")
    return templates.get_template("page.html").render(
        title=title,
        dates=dates,
        heading=heading,
        summary=_render(templates, summary, content),
        sections=sections,
        bodies={section.key: _render(templates, section, content) for section in sections},
        # Nothing is loaded, and no other script runs, whatever the log contains.
        policy=f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
               f"script-src '{_hash(script)}'",
        style=style,
        script=script,
        version=version,
        command=command,
    )  # fmt: skip


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ulr.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalize,
    )
    environment.filters["count"] = count
    return environment


def _finalize(value: object) -> object:
    """Spell out invisible characters of text; Jinja2 escapes the rest."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return "" if value is None else value


def _render(templates: Environment, section: Section[T], content: T) -> Markup:
    """Render a section. One without data, or with unexpected data, is replaced by the reason."""
    try:
        template = templates.get_template(f"{section.key}.html")
        return Markup(template.render(section.context(content)))
    except Missing as missing:
        reason = str(missing)
    except Exception as error:
        reason = f"This section cannot be drawn from the facts: {type(error).__name__}: {error}"
    return Markup(templates.get_template("missing.html").render(reason=reason))


def _dates(facts: Facts) -> str:
    dates = training_dates(facts)
    if not dates:
        return ""
    text = f"{'trained on' if facts.trainings else 'a window of'} {plural(len(dates), 'day')}"
    if facts.kind == COMPARE and dates == facts.window:  # the title has the dates
        return text
    return f"{text}, {dates[0]}" + (f" to {dates[-1]}" if len(dates) > 1 else "")


def _asset(name: str) -> Markup:
    return Markup(files("ulr.report").joinpath(name).read_text(encoding="utf-8"))


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"

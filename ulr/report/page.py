"""The page: one file that needs nothing else, the same bytes for the same facts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files

from ulr.report.facts import COMPARE, NIGHT, RERUN, Facts, Missing, report_name
from ulr.report.format import days
from ulr.report.html import Html, node, paragraph, prose
from ulr.report.metrics import learned_from
from ulr.report.sections import (
    browsing,
    contest,
    data,
    diagnostics,
    examination,
    field,
    learning,
    positions,
    setup,
    verdict,
    weights,
)

Section = tuple[str, str, Callable[[Facts], Html]]
SECTIONS: list[Section] = [
    ("contest", "Champion against challenger", contest.render),
    ("examination", "Examination by position", examination.render),
    ("browsing", "Examination by pair of positions", browsing.render),
    ("diagnostics", "Can this be believed?", diagnostics.render),
    ("weights", "Weight health", weights.render),
    ("learning", "Learning curves", learning.render),
    ("positions", "Average position after re-ranking", positions.render),
    ("data", "The data", data.render),
    ("setup", "Settings and versions", setup.render),
]
_COMPARED = ("contest", "The methods compared", field.render)
_TITLES = {NIGHT: "Night of {}", RERUN: "Re-run {}", COMPARE: "Comparison over {}"}


def page(facts: Facts) -> str:
    """The whole document."""
    title = _TITLES[facts.kind].format(facts.name)
    sections = SECTIONS if facts.kind == NIGHT else [_COMPARED, *SECTIONS[1:]]
    content = [_section(facts, n, *one) for n, one in enumerate(sections, 1)]
    links = [node("li", node("a", name, href=f"#{key}")) for key, name, _ in sections]
    body = node(
        "body",
        node("header", paragraph(_eyebrow(facts, title), class_="eyebrow"),
             node("h1", verdict.sentence(facts)), _guarded(verdict.render, facts)),
        node("nav", node("ol", *links), aria_label="Contents"),
        node("main", *content),
        node("footer", prose(f"Made by ulr {facts.versions.get('ulr', '')} from stored tables; "
                             f"`ulr report {report_name(facts)}` makes it again.")),
        node("script", Html(_asset("page.js"))),
    )  # fmt: skip
    return f"<!doctype html>\n{node('html', _head(title), body, lang='en')}\n"


def _eyebrow(facts: Facts, title: str) -> str:
    learned = learned_from(facts)
    if not learned:
        return title
    what = "learned from" if facts.trainings else "a window of"
    told = f"{title} · {what} {days(len(learned))}"
    if facts.kind == COMPARE and learned == facts.window:  # the title has its dates
        return told
    return f"{told}, {learned[0]}" + (f" to {learned[-1]}" if len(learned) > 1 else "")


def _section(facts: Facts, number: int, key: str, name: str, body: Callable[[Facts], Html]) -> Html:
    return node("section", node("span", str(number), class_="number"), node("h2", name),
                _guarded(body, facts), id=key)  # fmt: skip


def _guarded(body: Callable[[Facts], Html], facts: Facts) -> Html:
    """A section that has nothing, or whose tables are not what it expects, says so; the rest of
    the page is worth having without it."""
    try:
        return body(facts)
    except Missing as why:
        return paragraph(str(why), class_="missing")
    except Exception as error:
        told = (
            f"This section could not be drawn from what is stored: {type(error).__name__}: {error}"
        )
        return paragraph(told, class_="missing")


def _head(title: str) -> Html:
    style, script = _asset("page.css"), _asset("page.js")
    # Nothing is loaded, and no script but ours runs, whatever a log holds.
    policy = (f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
              f"script-src '{_hash(script)}'")  # fmt: skip
    return node(
        "head",
        node("meta", charset="utf-8"),
        node("meta", http_equiv="Content-Security-Policy", content=policy),
        node("meta", name="viewport", content="width=device-width, initial-scale=1"),
        node("meta", name="color-scheme", content="light dark"),
        node("title", f"{title} · ulr"),
        node("link", rel="icon", href="data:,"),  # or browsers ask the server for one
        node("style", Html(style)),
    )


def _asset(name: str) -> str:
    return files("ulr.report").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"

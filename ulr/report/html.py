"""HTML from small functions. What is not `Html` is escaped: nothing from a log can be markup."""

from __future__ import annotations

import re
from html import escape
from typing import NamedTuple

SHORT, LONG = 24, 40  # characters of a cell that stay on one line; of code that needs room to wrap
_VOID = ("meta", "link", "wbr")
_TAG = re.compile("<[^>]*>")
# Control characters, and those that turn the reading direction of what follows.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Html(str):
    """Markup; everything else is text."""

    __slots__ = ()


Child = str | Html | None


class Number(NamedTuple):
    """A cell that sorts by its value and reads as its text."""

    value: float | None
    text: str


Cell = str | Html | Number | None


def text(value: str) -> Html:
    """Escaped; characters that nobody can see are spelled out."""
    return Html(escape(_UNSEEN.sub(lambda m: f"\\u{ord(m[0]):04x}", value)))


def node(tag: str, *children: Child, **attributes: str | float | None) -> Html:
    """An element. `class_` and `aria_label` stand for class and aria-label; None is left out."""
    named = {k.rstrip("_").replace("_", "-"): v for k, v in attributes.items() if v is not None}
    opened = "".join(f' {name}="{text(str(value))}"' for name, value in named.items())
    if tag in _VOID:
        return Html(f"<{tag}{opened}>")
    return Html(f"<{tag}{opened}>{join(*children)}</{tag}>")


def join(*children: Child) -> Html:
    """One after the other."""
    return Html("".join(c if isinstance(c, Html) else text(c) for c in children if c is not None))


def paragraph(*children: Child, class_: str | None = None) -> Html:
    """A paragraph; what stands between backticks is code."""
    return node(
        "p", *(c if isinstance(c, Html) else prose(c) for c in children if c), class_=class_
    )


def prose(words: str) -> Html:
    """Text with code between backticks."""
    return join(*(node("code", w) if n % 2 else w for n, w in enumerate(words.split("`"))))


def breakable(words: str) -> Html:
    """Code that may go on in the next line after a dot or a slash, and is copied as it was."""
    pieces = re.split(r"(?<=[./])(?=[^./])", words)
    return node("code", *[c for piece in pieces for c in (node("wbr"), piece)][1:])


def table(headings: list[str], rows: list[list[Cell]], caption: str) -> Html:
    """A table that scrolls inside its own box and sorts on a click on its headings."""
    right = [any(isinstance(row[n], Number) for row in rows) for n in range(len(headings))]
    head = [node("th", h, scope="col", class_="n" if r else None)
            for h, r in zip(headings, right, strict=True)]  # fmt: skip
    body = [node("tr", *(_cell(c, r) for c, r in zip(row, right, strict=True))) for row in rows]
    inner = node(
        "table",
        node("caption", caption),
        node("thead", node("tr", *head)),
        node("tbody", *body),
    )
    return node("div", inner, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _cell(cell: Cell, right: bool) -> Html:
    side = "n" if right else None
    if isinstance(cell, Number):
        return node("td", cell.text, class_=side, data_v=None if cell.value is None else cell.value)
    if isinstance(cell, Html):  # names and values of settings stay narrow: a phone shows both
        wide = len(_TAG.sub("", cell)) > LONG
        return node("td", cell, class_=side or ("long" if wide else None))
    return node("td", cell, class_=side or ("short" if len(cell or "") <= SHORT else "long"))


def left_out(number: int, what: str, where: str) -> Html | None:
    """That a page has its limits, and where the rest is."""
    return paragraph(f"{number:,} more {what} in {where}.", class_="soft") if number > 0 else None


def folded(summary: str, *children: Child) -> Html:
    """Content behind one line."""
    return node("details", node("summary", summary), *children)


def figure(drawings: list[Html], caption: str, numbers: Html) -> Html:
    """Drawings for wide and for narrow screens, what they show, and the numbers behind them."""
    shown = [
        node("div", d, class_=size) for d, size in zip(drawings, ("wide", "narrow"), strict=True)
    ]
    return node("figure", *shown, node("figcaption", caption), folded("The numbers", numbers))

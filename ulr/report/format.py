"""Numbers and text as the page shows them; an unknown number is a dash."""

from __future__ import annotations

import math
import re
from typing import NamedTuple, TypeGuard

# Control characters, lone surrogates, and characters that change the reading direction.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Number(NamedTuple):
    """A number and its text. Tables sort by the value; f-strings and templates use the text."""

    value: float | None
    text: str

    def __str__(self) -> str:
        return self.text


UNKNOWN = Number(None, "–")


def visible(text: str) -> str:
    r"""Return the text with invisible characters as \uXXXX."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def known(value: float | None) -> TypeGuard[float]:
    """Return whether there is a finite number."""
    return value is not None and math.isfinite(value)


def fixed(value: float | None, digits: int = 4) -> Number:
    """Return a number with so many digits after the point."""
    return Number(value, f"{value:.{digits}f}") if known(value) else UNKNOWN


def signed(value: float | None, digits: int = 4) -> Number:
    """Return a number with its sign, and so many digits after the point."""
    if not known(value):
        return UNKNOWN
    text = f"{value:+.{digits}f}" if round(value, digits) else f"{0:.{digits}f}"
    return Number(value, text.replace("-", "−"))


def count(value: float | None) -> Number:
    """Return a whole number with separators between thousands."""
    return Number(value, f"{value:,.0f}") if known(value) else UNKNOWN


def percent(value: float | None, digits: int = 1) -> Number:
    """Return a fraction as a percentage."""
    return Number(value, f"{value:.{digits}%}") if known(value) else UNKNOWN


def significant(value: float | None, digits: int = 3) -> Number:
    """Return a number with so many significant digits; below 0.001 as a power of ten."""
    if not known(value):
        return UNKNOWN
    if value and abs(value) < 1e-3:
        return Number(value, f"{value:.{digits - 1}e}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    return Number(value, f"{value:,.{places}f}")


def interval(lower: float | None, upper: float | None, *, sign: bool = False) -> Number:
    """Return [lower, upper]; a table sorts by the lower end."""
    if not known(lower) or not known(upper):
        return Number(None, "unbounded")
    form = signed if sign else fixed
    return Number(lower, f"[{form(lower)}, {form(upper)}]")


def p_value(value: float | None) -> Number:
    """Return a p-value with two significant digits."""
    if not known(value):
        return UNKNOWN
    return Number(value, "< 0.0001" if value < 1e-4 else f"{value:.2g}")


def p_equals(value: float | None) -> str:
    """Return a p-value for a sentence: p = 0.02 or p < 0.0001."""
    text = p_value(value).text
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def duration(seconds: float) -> Number:
    """Return seconds, minutes or hours."""
    minutes = seconds / 60
    if seconds < 90:
        return Number(seconds, f"{seconds:.1f} s")
    return Number(seconds, f"{minutes:.1f} min" if minutes < 90 else f"{minutes / 60:.1f} h")


def plural(number: int, noun: str) -> str:
    """Return `1 day`, `2 days`, `1,000 days`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")

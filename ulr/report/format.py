"""Numbers as people read them; what is not known is a dash."""

from __future__ import annotations

import math

from ulr.report.html import Number

DASH = "–"


def known(value: float | None) -> bool:
    """Whether there is a finite number."""
    return value is not None and math.isfinite(value)


def fixed(value: float | None, digits: int = 4) -> Number:
    """So many digits after the point."""
    return Number(value, f"{value:.{digits}f}") if known(value) else Number(None, DASH)


def signed(value: float | None, digits: int = 4) -> Number:
    """The same with its sign, a real minus."""
    if not known(value):
        return Number(None, DASH)
    shown = f"{value:+.{digits}f}" if round(value, digits) else f"{0:.{digits}f}"
    return Number(value, shown.replace("-", "−"))


def count(value: float | None) -> Number:
    """A whole number with its thousands marked."""
    return Number(value, f"{value:,.0f}") if known(value) else Number(None, DASH)


def share(value: float | None, digits: int = 1) -> Number:
    """A share as per cent."""
    return Number(value, f"{value:.{digits}%}") if known(value) else Number(None, DASH)


def significant(value: float | None, digits: int = 3) -> Number:
    """So many digits that mean something, never in powers of ten above a thousandth."""
    if not known(value):
        return Number(None, DASH)
    if value and not 1e-3 <= abs(value) < 1e6:
        return Number(value, f"{value:.{digits - 1}e}" if abs(value) < 1e-3 else f"{value:,.0f}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    return Number(value, f"{value:,.{places}f}")


def interval(
    lower: float | None,
    upper: float | None,
    digits: int = 4,
    sign: bool = False,
    *,
    of: float | None = 0.0,
) -> Number:
    """[lower, upper], sorted by its lower end. of: the value; one not known has no interval."""
    if not known(of):
        return Number(None, DASH)
    if not known(lower) or not known(upper):
        return Number(None, "unbounded")
    shown = [(signed if sign else fixed)(v, digits).text for v in (lower, upper)]
    return Number(lower, f"[{shown[0]}, {shown[1]}]")


def p_value(value: float | None) -> Number:
    """Two digits; what is below a ten-thousandth is only that."""
    if not known(value):
        return Number(None, DASH)
    return Number(value, "< 0.0001" if value < 1e-4 else f"{value:.2g}")


def p_words(value: float | None) -> str:
    """The same as part of a sentence."""
    shown = p_value(value).text
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def days(number: int) -> str:
    """1 day, 2 days."""
    return f"{number} {'day' if number == 1 else 'days'}"


def seconds(value: float) -> Number:
    """Seconds, minutes or hours."""
    if value < 90:
        return Number(value, f"{value:.1f} s")
    minutes = value / 60
    return Number(value, f"{minutes:.1f} min" if minutes < 90 else f"{minutes / 60:.1f} h")

"""Store the facts of a run, and the page made from them, under `reports` of the warehouse."""

from __future__ import annotations

from ulr.errors import UserError
from ulr.redact import redact
from ulr.report.facts import Facts, read_facts
from ulr.report.page import page
from ulr.warehouse.storage import Storage

FOLDER = "reports"
INDEX = "index"  # the page over all nights, and its rows


def store_report(storage: Storage, facts: Facts) -> str:
    """Write the facts and their page; return the page.

    The page is made from the stored facts, so that `ulr report` writes the same bytes.
    """
    storage.write_json(redact(facts.to_json()), FOLDER, f"{facts.report_name}.json")
    return write_page(storage, load_facts(storage, facts.report_name))


def write_page(storage: Storage, facts: Facts) -> str:
    """Write the page of the facts; return it."""
    content = page(facts)
    storage.write_text(content, FOLDER, f"{facts.report_name}.html")
    return content


def page_location(storage: Storage, name: str) -> str:
    """Return the path of a page, for messages."""
    return storage.shown(FOLDER, f"{name}.html")


def load_facts(storage: Storage, name: str) -> Facts:
    """Return the stored facts of a run."""
    if name not in report_names(storage):
        raise UserError(f"no report {name} in {storage.shown(FOLDER)}; {_available(storage)}")
    return read_facts(storage.read_json(FOLDER, f"{name}.json") or {})


def report_names(storage: Storage) -> list[str]:
    """Return the runs that have a report, sorted."""
    names = [f.path.rpartition("/")[2] for f in storage.files(FOLDER)]
    return [n.removesuffix(".json") for n in names if n.endswith(".json") and n != f"{INDEX}.json"]


def latest_night(storage: Storage) -> str:
    """Return the name of the latest night that has a report."""
    nights = [name for name in report_names(storage) if name[:4].isdigit()]
    if not nights:
        raise UserError(f"no night has a report in {storage.shown(FOLDER)}; {_available(storage)}")
    return nights[-1]


def _available(storage: Storage) -> str:
    names = report_names(storage)
    return f"available: {', '.join(names)}" if names else "`ulr nightly` writes the first"

"""An HTML page as a list of elements."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from ulr.report.facts import Facts, read_facts
from ulr.report.page import page

VOID = {"meta", "link", "wbr"}


class Outline(HTMLParser):
    """Elements in document order, each with its attributes, text and ancestors.

    Raises an AssertionError if elements are not nested properly.
    """

    def __init__(self, content: str | Facts) -> None:
        super().__init__()
        self.open: list[dict] = []
        self.all: list[dict] = []
        self.feed(page(content) if isinstance(content, Facts) else content)
        self.close()
        assert not self.open
        for element in self.all:
            element["text"] = " ".join(element["text"].split())

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "text": "", "ancestors": list(self.open), **dict(attrs)}
        self.all.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def find(self, tag, within=None, css_class=None):
        return [e for e in self.all
                if e["tag"] == tag and (css_class is None or e.get("class") == css_class)
                and (within is None or any(a is within for a in e["ancestors"]))]  # fmt: skip

    @property
    def missing(self):
        """The paragraphs of sections that have no data."""
        return self.find("p", css_class="missing")

    def section(self, key):
        return next(e for e in self.find("section") if e["id"] == key)


def section_text(facts: Facts, key: str) -> str:
    """Return the text of a section, without the tables behind its figures."""
    outline = Outline(facts)
    text = outline.section(key)["text"]
    for details in outline.find("details", outline.section(key)):
        text = text.replace(details["text"], "")
    return text


def stored(facts: Facts) -> Facts:
    """Return the facts as they are read from the warehouse, whose files have sorted keys."""
    return read_facts(json.loads(json.dumps(facts.to_json(), sort_keys=True)))

"""A page taken apart again, for the tests."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from ulr.report.facts import Facts, read_facts

VOID = {"meta", "link", "wbr"}


class Outline(HTMLParser):
    """Elements in the order of their beginning, with attributes, text and path; checks nesting."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[dict] = []
        self.all: list[dict] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        one = {"tag": tag, "text": "", "inside": list(self.open), **dict(attrs)}
        self.all.append(one)
        if tag not in VOID:
            self.open.append(one)

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for one in self.open:
            one["text"] += data

    def find(self, tag, within=None):
        return [e for e in self.all if e["tag"] == tag
                and (within is None or any(p is within for p in e["inside"]))]  # fmt: skip


def section(outline, key):
    return next(e for e in outline.find("section") if e["id"] == key)


def kept(facts: Facts) -> Facts:
    """As it comes back from the warehouse, whose files have their keys sorted."""
    return read_facts(json.loads(json.dumps(facts.to_json(), sort_keys=True)))

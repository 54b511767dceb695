"""Print the settings as a stage would see them."""

from __future__ import annotations

import argparse

import yaml

from ulr.cli.terminal import Answer, say
from ulr.config.settings import Settings

EXAMPLE = "ulr config --set groups.partitions=16"


def configure(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Print YAML that can be used as an overlay."""
    content = settings.model_dump(mode="json")
    say(yaml.safe_dump(content, sort_keys=False).rstrip())
    return Answer(content)

"""Print the settings as a stage would see them."""

from __future__ import annotations

import argparse

import yaml

from ulr.settings import Settings

EXAMPLE = "ulr config --set groups.partitions=16"


def configure(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def run(args: argparse.Namespace, settings: Settings) -> None:
    """Print YAML that can be used as an overlay."""
    print(yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False), end="")

"""Print the resolved settings."""

from __future__ import annotations

import argparse

import yaml

from ulr.cli.arguments import no_options
from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.redact import redact

EXAMPLE = "ulr config --set groups.partitions=16"

configure = no_options


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Print YAML that can be used as an overlay; secrets are hidden."""
    content = redact(settings.model_dump(mode="json"))
    print_line(yaml.safe_dump(content, sort_keys=False).rstrip())
    return CommandResult(content)

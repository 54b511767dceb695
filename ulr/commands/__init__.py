"""One module per stage: what it takes, and how it is run. The only place that sees all settings."""

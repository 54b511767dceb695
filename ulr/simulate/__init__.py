"""Click logs with known truth: worlds of queries and documents, browsing models, experiments."""

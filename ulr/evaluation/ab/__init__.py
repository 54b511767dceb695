"""A/B tests: two rankers compared on the pages that each of them served."""

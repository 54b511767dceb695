"""The charts of the page and of `ulr propensities --figure`, as SVG."""

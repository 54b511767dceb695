"""report: what a run left, as one page.

In: the published tables of a run, its settings and its stages (`collect`, `tables`). Out: the facts
of the run as JSON and a page of HTML, both under `reports` of the warehouse (`store`).

A section is a context (`sections/NAME.py`: facts in, values out) and a template
(`templates/NAME.html`). `charts` draws SVG, for the page and for `ulr propensities --figure`.
May import every room before it, up to `evaluation` and `ml`; not registry, pipeline or cli.
"""

"""The page over all nights: `reports/index.html`.

`rows` reduces the facts of a night to one small row. `store` keeps the rows beside the page, and
reads only the facts that changed. `sections` and `page` render them.
"""

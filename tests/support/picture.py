"""Take a picture of the top of a report's page, for the README.

python -m tests.support.picture PAGE PICTURE
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.browser import find_chromium, take_picture

WIDTH, HEIGHT = 1280, 2640


def main(page: str, picture: str) -> int:
    chromium = find_chromium()
    if chromium is None or not Path(page).is_file():
        what = "chromium on the path" if chromium is None else f"page {page}: run `make demo`"
        print(f"no {what}; {picture} stays as it is", file=sys.stderr)
        return 1
    text = Path(page).read_text(encoding="utf-8")
    target = str(Path(picture).resolve())
    take_picture(chromium, text, target, width=WIDTH, height=HEIGHT)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

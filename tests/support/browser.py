"""Headless Chromium. Pages are served on loopback and loaded into a frame.

The frame has the width of a phone or a desktop; the page around it has the same origin, so that its
script can inspect the frame.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--hide-scrollbars", "--enable-logging=stderr",
         "--force-device-scale-factor=1")  # fmt: skip
DARK = ("--blink-settings=preferredColorScheme=0",)
TIMEOUT_S = 120


def find_chromium() -> str | None:
    """Return the first Chromium on the path."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextlib.contextmanager
def served(pages: Mapping[str, str]) -> Iterator[str]:
    """Serve pages by name; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, pages))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, pages: Mapping[str, str], *args: object) -> None:
        self.pages = pages
        super().__init__(*args)

    def do_GET(self) -> None:
        content = self.pages.get(self.path.lstrip("/"))
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write((content or "").encode())

    def log_message(self, *args: object) -> None:
        """Log nothing."""


def run_chromium(chromium: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Chromium with a temporary profile."""
    with tempfile.TemporaryDirectory(prefix="ulr-chromium-") as profile:
        command = [chromium, *FLAGS, f"--user-data-dir={profile}", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )


def framed(width: int, height: int, script: str) -> str:
    """Return a page that shows `page.html` at a width, and the result of the script on it."""
    return f"""<!doctype html><title>frame</title><link rel="icon" href="data:,">
<body style="margin:0"><iframe src="page.html" width="{width}" height="{height}" style="border:0">
</iframe><pre id="result"></pre><script>
addEventListener("load", () => {{
  const frame = document.querySelector("iframe").contentWindow;
  const run = (document, frame) => {{ {script} }};
  document.getElementById("result").textContent = JSON.stringify(run(frame.document, frame));
}});
</script>"""


def evaluate(chromium: str, page: str, width: int, script: str) -> tuple[Any, list[str]]:
    """Return the result of the script on the page at a width, and the lines of the console."""
    pages = {"page.html": page, "frame.html": framed(width, 900, script)}
    with served(pages) as address:
        done = run_chromium(
            chromium, "--virtual-time-budget=4000", "--dump-dom", f"{address}/frame.html"
        )
    result = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    assert result is not None
    return json.loads(unescape(result[1])), console


def take_picture(
    chromium: str, page: str, path: str, *, width: int, height: int, dark: bool = False
) -> None:
    """Write a PNG of the top of the page."""
    size = f"--window-size={max(width, 500)},{height}"
    with served({"page.html": page, "frame.html": framed(width, height, "return 0")}) as address:
        theme = DARK if dark else ()
        run_chromium(chromium, size, *theme, f"--screenshot={path}", f"{address}/frame.html")

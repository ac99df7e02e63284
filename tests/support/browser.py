"""Renders a page in headless Chromium, for tests of its layout. Mark such a test `browser`.

Without a browser the test is skipped with the reason in the summary; with CI=true it fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def layout(page: str, script: str, directory: Path, width: int, dark: bool) -> dict[str, Any]:
    """What the script assigns to `document.documentElement.dataset.found`, as JSON.

    A window cannot be as narrow as a phone, but the html element can.
    """
    if CHROMIUM is None:
        report = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        report("the layout of a page needs a browser: apt-get install chromium")
    path = directory / "page.html"
    path.write_text(
        page.replace("</head>", f"<style>html{{width:{width}px}}</style></head>") + f"<script>{script}</script>"
    )
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", f"--user-data-dir={directory / 'profile'}", f"--window-size={max(width, 500)},900",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom", path.as_uri(),
        ],
        capture_output=True, text=True, check=True, timeout=110,
    )  # fmt: skip
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    result: dict[str, Any] = json.loads(unescape(found[1]))
    return result


def rgb(colour: str) -> str:
    """`#rrggbb` as a browser's computed style has it."""
    return f"rgb({', '.join(str(int(colour[place : place + 2], 16)) for place in (1, 3, 5))})"

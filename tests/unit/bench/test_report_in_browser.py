"""Layout of the report in a browser: no text outside of its chart or over another one, in both themes.

Marked `browser`. Without chromium it is skipped with the reason in the summary; with CI=true it fails.
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

from bench.report import html, style
from tests.unit.bench.test_results import full_run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# Collects the layout in the page. Boxes of texts may touch and overlap a little.
SCRIPT = """
<script>
const found = {overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  ground: getComputedStyle(document.body).backgroundColor, charts: 0, outside: [], overlaps: [], small: []};
for (const details of document.querySelectorAll('details')) details.open = true;
for (const svg of document.querySelectorAll('svg.chart')) {
  found.charts++;
  const frame = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll('text')];
  const name = svg.getAttribute('aria-label');
  const boxes = texts.map(one => one.getBoundingClientRect());
  boxes.forEach((box, i) => {
    const words = texts[i].textContent;
    const across = box.left < frame.left - 1 || box.right > frame.right + 1;
    if (across || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) found.outside.push(name + ': ' + words);
    const size = parseFloat(getComputedStyle(texts[i]).fontSize) * frame.width / svg.viewBox.baseVal.width;
    if (size < 8.5) found.small.push(name + ': ' + words);
    for (let j = i + 1; j < boxes.length; j++) {
      const x = Math.min(box.right, boxes[j].right) - Math.max(box.left, boxes[j].left);
      const y = Math.min(box.bottom, boxes[j].bottom) - Math.max(box.top, boxes[j].top);
      if (x > 2 && y > 4) found.overlaps.push(name + ': ' + words + ' / ' + texts[j].textContent);
    }
  });
}
document.documentElement.dataset.found = JSON.stringify(found);
</script>
"""


def layout(page: str, directory: Path, width: int, dark: bool) -> dict[str, Any]:
    """Renders the page at this width: a window cannot be as narrow as a phone, but the html element can."""
    path = directory / "report.html"
    path.write_text(page.replace("</head>", f"<style>html{{width:{width}px}}</style></head>") + SCRIPT)
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
    return f"rgb({', '.join(str(int(colour[place : place + 2], 16)) for place in (1, 3, 5))})"


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(1300, False), (390, True)])
def test_report_layout_in_browser(width: int, dark: bool, tmp_path: Path) -> None:
    if CHROMIUM is None:
        report = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        report("the layout of the benchmark report needs a browser: apt-get install chromium")
    run = full_run()
    run.measure("PSS per idle shim of 10", "kB", kind="memory").samples = {"runc 2": [9000.0], "runhcs cold": [4500.0]}
    found = layout(html.html(run), tmp_path, width, dark)
    assert found["charts"] == 9
    assert found["outside"] == [] and found["overlaps"] == [] and found["small"] == []
    assert found["overflow"] <= 0
    assert found["ground"] == rgb((style.DARK_PAGE if dark else style.LIGHT_PAGE)["paper"])

"""Layout of the report in a browser: no text outside of its chart or over another one, in both themes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.report import html
from runhcs.charts import style
from tests.support.browser import layout, rgb
from tests.unit.bench.test_results import full_run

# Collects the layout in the page. Boxes of texts may touch and overlap a little.
SCRIPT = """
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
"""


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(1300, False), (390, True)])
def test_report_layout_in_browser(width: int, dark: bool, tmp_path: Path) -> None:
    run = full_run()
    run.measure("PSS per idle shim of 10", "kB", kind="memory").samples = {"runc 2": [9000.0], "runhcs cold": [4500.0]}
    found = layout(html.html(run), SCRIPT, tmp_path, width, dark)
    assert found["charts"] == 9
    assert found["outside"] == [] and found["overlaps"] == [] and found["small"] == []
    assert found["overflow"] <= 0
    assert found["ground"] == rgb((style.DARK_PAGE if dark else style.LIGHT_PAGE)["paper"])

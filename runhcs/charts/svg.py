"""SVG for charts: elements, scales, ticks, axes. The result needs no script and no network.

Colours are CSS classes (`c0` … `c7` for candidates, `ink`, `faint`, `grid`): the page, or the style of a standalone
file, sets them for the light and the dark theme.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

# The width of a card on a page and about that of a phone: text has the same size on both.
WIDTH = 400.0
MARKERS = 6
COLOURS = 8
# Height of the heading of a standalone chart.
HEADING = 26.0


def element(name: str, /, content: str = "", **attributes: object) -> str:
    """`class_` is `class`, other underscores are hyphens; numbers are rounded to two decimals."""
    words = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    return f"<{name}{words}>{content}</{name}>" if content else f"<{name}{words}/>"


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))


def text(x: float, y: float, words: str, class_: str = "", anchor: str = "start") -> str:
    return element("text", escape(words), x=x, y=y, class_=class_ or "ink", text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def title(words: str) -> str:
    """The tooltip of the enclosing element, also for screen readers."""
    return element("title", escape(words))


def marker(number: int, x: float, y: float, words: str, size: float = 4.5) -> str:
    """Every candidate has a shape as well as a colour, for readers who cannot tell colours apart."""
    colour = f"mark c{number % COLOURS}"
    shape = number % MARKERS
    if shape == 0:
        return element("circle", title(words), cx=x, cy=y, r=size, class_=colour)
    outlines: dict[int, list[tuple[float, float]]] = {
        1: [(-1, -1), (1, -1), (1, 1), (-1, 1)],
        2: [(0, -1.25), (1.2, 0.9), (-1.2, 0.9)],
        3: [(0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)],
        4: [(0, 1.25), (1.2, -0.9), (-1.2, -0.9)],
        5: [(-1.2, -0.4), (0, -1.3), (1.2, -0.4), (0.75, 1.1), (-0.75, 1.1)],
    }
    points = " ".join(f"{x + dx * size:.2f},{y + dy * size:.2f}" for dx, dy in outlines[shape])
    return element("polygon", title(words), points=points, class_=colour)


class Scale:
    """Maps values to coordinates, linear or logarithmic."""

    def __init__(self, low: float, high: float, begin: float, end: float, log: bool = False) -> None:
        self.log = log
        if log:
            low, high = max(low, 1e-9), max(high, low * 1.01, 1e-9)
        elif high <= low:
            high = low + 1
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(max(value, 1e-9) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + (self.end - self.begin) * min(max(share, 0.0), 1.0)

    def ticks(self, most: int = 6) -> list[float]:
        if not self.log:
            step = nice_step((self.high - self.low) / most)
            first = math.ceil(self.low / step - 1e-9)
            return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]
        for digits in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [digit * 10.0**decade for decade in decades for digit in digits]
            found = [value for value in found if self.low * 0.999 <= value <= self.high * 1.001]
            if len(found) <= most + 1:
                break
        return found[:: -(-len(found) // (most + 1)) or 1]


def nice_step(rough: float) -> float:
    """The smallest of 1, 2 or 5 times a power of ten that is not below `rough`."""
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= rough * 0.999)


def label(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:g}k"
    return f"{value:.6g}"


def spaced(scale: Scale, values: Iterable[float], gap: float = 24.0) -> list[float]:
    """The values whose labels do not overlap; always with the last one."""
    kept: list[float] = []
    for value in sorted(values, reverse=True):
        if not kept or abs(scale(kept[-1]) - scale(value)) >= gap:
            kept.append(value)
    return kept[::-1]


def x_axis(
    scale: Scale, top: float, bottom: float, name: str, most: int = 6, values: Iterable[float] | None = None
) -> list[str]:
    out = []
    for value in scale.ticks(most) if values is None else spaced(scale, values):
        out.append(line(scale(value), top, scale(value), bottom, "grid"))
        half = 3.3 * len(label(value))
        place = min(max(scale(value), half), WIDTH - half)  # within the chart
        out.append(text(place, bottom + 14, label(value), "tick", "middle"))
    out.append(text((scale.begin + scale.end) / 2, bottom + 29, name, "tick", "middle"))
    return out


def y_axis(scale: Scale, left: float, right: float, most: int = 5) -> list[str]:
    out = []
    for value in scale.ticks(most):
        out.append(line(left, scale(value), right, scale(value), "grid"))
        out.append(text(left - 6, scale(value) + 4, label(value), "tick", "end"))
    return out


def legend(names: Iterable[tuple[int, str]], y: float = 12.0) -> tuple[list[str], float]:
    """Markers with names, wrapped, and the y coordinate below them."""
    out, x = [], 6.0
    for number, name in names:
        width = 24 + 6.6 * len(name)
        if x + width > WIDTH and x > 6:
            x, y = 6.0, y + 18
        out += [marker(number, x + 5, y - 4, name), text(x + 15, y, name)]
        x += width
    return out, y + 10


def chart(parts: Iterable[str], height: float, name: str) -> str:
    """An SVG element for a page that has the style."""
    box = f"0 0 {WIDTH:g} {height:g}"
    return element("svg", title(name) + "".join(parts), viewBox=box, role="img", aria_label=name, class_="chart")


def standalone(svg: str, style: str) -> str:
    """The same as a file: with its name as heading and its own background, since any page may embed it."""
    head, body = svg.split(">", 1)
    box = head.split('viewBox="')[1].split('"')[0]
    name = head.split('aria-label="')[1].split('"')[0]
    width, height = (float(one) for one in box.split()[2:])
    sized = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height + HEADING:g}"'
    head = head.replace("<svg", sized, 1).replace(box, f"0 {-HEADING:g} {width:g} {height + HEADING:g}")
    paper = element("rect", y=-HEADING, width="100%", height="100%", class_="paper")
    above = f'<text x="8" y="-9" class="strong">{name}</text>'  # escaped already
    return f"{head}><style>{style}</style>{paper}{above}{body}\n"

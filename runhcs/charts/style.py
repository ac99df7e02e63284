"""CSS of the report and of standalone charts: one set of colour variables, a light and a dark theme.

Candidate colours differ in lightness and hue and have a contrast of at least 3 to 1 to their background in both
themes. Each candidate has a marker shape as well.
"""

from __future__ import annotations

LIGHT = ("#0b62a8", "#c44601", "#00795a", "#9a3d87", "#8a6d00", "#007e8a", "#5c6470", "#a11d33")
DARK = ("#6cb6f5", "#ff9a5c", "#4fd1a5", "#e59ad6", "#e3c04f", "#5fd3e0", "#b3bcc8", "#ff8fa0")


LIGHT_PAGE = {"paper": "#ffffff", "card": "#f6f7f9", "ink": "#1b1f24", "faint": "#5a6370", "grid": "#d5dae1"}
LIGHT_PAGE |= {"bad": "#a11d33", "good": "#00704f"}
DARK_PAGE = {"paper": "#14171c", "card": "#1d2128", "ink": "#e8ebef", "faint": "#a4adba", "grid": "#373e49"}
DARK_PAGE |= {"bad": "#ff8fa0", "good": "#4fd1a5"}


def _variables(page: dict[str, str], colours: tuple[str, ...]) -> str:
    named = page | {f"c{number}": colour for number, colour in enumerate(colours)}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())


THEMES = (
    f":root{{color-scheme:light dark;{_variables(LIGHT_PAGE, LIGHT)}}}\n"
    f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK_PAGE, DARK)}}}}}\n"
)

CHARTS = (
    "text{font:11.5px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:var(--ink)}"
    "text.tick{fill:var(--faint);font-size:11px}text.value{font-size:11px;font-variant-numeric:tabular-nums}"
    "text.strong{font-weight:600;paint-order:stroke;stroke:var(--ground,var(--paper));stroke-width:3px}"
    ".paper{fill:var(--paper)}.grid{stroke:var(--grid);stroke-width:1}.one{stroke:var(--ink);stroke-width:1.2}"
    ".goal{stroke:var(--good);stroke-width:4;opacity:.75}"
    ".stroke{stroke-width:2.2}.thin{stroke-width:1.2}.median{stroke-width:2.6}.path{fill:none;stroke-width:2}"
    ".whisker{stroke:var(--ink);stroke-width:1.5}"
    ".unsure{opacity:.5}.box{opacity:.22}.dot{opacity:.6}.inner{opacity:.55}.bar{opacity:.85}"
    ".mark{stroke:var(--paper);stroke-width:.8}"
    + "".join(f".c{one}{{fill:var(--c{one})}}.s{one}{{stroke:var(--c{one})}}" for one in range(len(LIGHT)))
)

PAGE = """
*{box-sizing:border-box}
body{margin:0 auto;max-width:1440px;padding:1rem;background:var(--paper);color:var(--ink);
 font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
h1{font-size:1.6rem;line-height:1.2;margin:.4rem 0}
h2{font-size:1.25rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--grid)}
h3{font-size:1rem;margin:0 0 .3rem}a{color:var(--c0)}p{max-width:75ch;margin:.5rem 0}.faint{color:var(--faint)}
nav a{display:inline-block;margin-right:1rem;padding:.2rem 0}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,25rem),1fr));gap:1rem;align-items:start}
.card{--ground:var(--card);background:var(--card);border:1px solid var(--grid);border-radius:8px;
 padding:.8rem;min-width:0}
.chart{display:block;width:100%;max-width:560px;height:auto}
.card .mark{stroke:var(--card)}
.passed{color:var(--good);font-weight:600}.failed{color:var(--bad);font-weight:600}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem .2rem 0;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}
th:first-child,td:first-child,td.words{text-align:left}td.words{white-space:normal;overflow-wrap:anywhere}
thead th{color:var(--faint);font-weight:500}summary{cursor:pointer;color:var(--faint);font-size:.9rem;padding:.3rem 0}
code{font-size:.9em;overflow-wrap:anywhere}li{margin:.2rem 0}
@media (max-width:30rem){body{padding:.6rem}.card{padding:.5rem .35rem}.card h3{padding:0 .3rem}}
@media print{.card{break-inside:avoid}}
"""

"""The files of a run: exports, the HTML report, charts; and the comparison of two runs."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.__main__ import main
from bench.report import artifacts, charts, exports, html, svg_export
from bench.report.compare import changes, environment_differences
from bench.report.gate import Bound
from bench.report.results import Measure, Run
from bench.report.results_json import load
from bench.report.statistics import summary
from bench.runner import judge
from runhcs.charts import style, svg
from tests.unit.bench.test_results import full_run

SPACE = "{http://www.w3.org/2000/svg}"


def test_csv_has_every_sample_and_ratio() -> None:
    run = full_run()
    rows = list(csv.DictReader(io.StringIO(exports.raw_csv(run))))
    start = [row for row in rows if (row["shape"], row["name"], row["candidate"]) == ("measure", "start", "runc 2")]
    assert [float(row["value"]) for row in start] == run.measures[0].samples["runc 2"]
    assert [row["x"] for row in rows if row["shape"] == "series"] == ["1", "1", "4", "4", "16", "16"]
    assert sum(row["shape"] == "trend" for row in rows) == 40
    lines = csv.DictReader(io.StringIO(exports.summary_csv(run)))
    ours = next(row for row in lines if row["candidate"] == "runhcs cold")
    assert float(ours["p50"]) == summary(run.measures[0].samples["runhcs cold"]).p50
    assert float(ours["low"]) < float(ours["ratio"]) < float(ours["high"]) and ours["baseline"] == "runc 2"


# A result line of golang.org/design/14313-benchmark-format.
BENCHMARK = re.compile(r"^Benchmark[A-Z_]\S* +\d+( +[-+0-9.e]+ +\S+)+$")


def test_benchstat_format_baseline_first(tmp_path: Path) -> None:
    lines = exports.benchstat(full_run()).splitlines()
    head, body = lines[: lines.index("")], lines[lines.index("") + 1 :]
    assert "Unit ns/op better=lower" in head and "Unit per-s better=higher" in head
    assert len(body) == 80 and all(BENCHMARK.match(line) for line in body)
    assert body[0].startswith("Benchmark_start/profile=process/candidate=runc_2 1 1") and body[0].endswith(" ns/op")
    assert body[40].startswith("Benchmark_calls/candidate=runc_2 1 ")  # the first sample is of another
    assert 10e6 <= float(body[0].split()[2]) <= 11e6
    benchstat = shutil.which("benchstat")
    if benchstat is None:
        return  # checked only where benchstat is installed
    path = tmp_path / "results.bench"
    path.write_text("\n".join([*lines, ""]))
    command = [benchstat, "-col", "/candidate", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "runhcs_cold" in done.stdout and "sec/op" in done.stdout and "p=0.000" in done.stdout
    assert done.stderr == ""


def test_github_action_files_split_by_direction() -> None:
    files = {name: json.loads(text) for name, text in exports.github_action(full_run()).items()}
    smaller, bigger = files["github-smaller-is-better.json"], files["github-bigger-is-better.json"]
    assert [one["name"] for one in smaller] == [
        "process: start: runhcs cold to runc 2", "process: start (runc 2)", "process: start (runhcs cold)"
    ]  # fmt: skip
    assert 1.8 < smaller[0]["value"] < 2.1 and smaller[0]["unit"] == "ratio"
    assert 1.9 < bigger[0]["value"] < 2.1 and len(bigger) == 3
    for one in smaller + bigger:
        assert {"name", "unit", "value"} <= set(one) and isinstance(one["value"], float)


class Page(HTMLParser):
    """Checks that a page is well-formed and has no external resources."""

    EMPTY = frozenset({"meta", "line", "circle", "rect", "polygon", "polyline"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.titles: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img", "iframe")
        for name, value in attrs:
            assert value is None or "://" not in value
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        assert tag in self.EMPTY

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "title":
            self.titles.append(data)


def read(run: Run) -> Page:
    page = Page()
    page.feed(html.html(run))
    assert page.open == []
    return page


def test_report_is_self_contained_page_with_every_section() -> None:
    page = read(full_run())
    expected = ["ratios", "distributions", "phases", "scaling", "trends", "harness", "environment"]
    assert page.ids == expected and page.links == [f"#{one}" for one in expected]
    assert "process: start, runhcs cold: 1.9" in " ".join(page.titles)
    text = html.html(full_run())
    assert "prefers-color-scheme:dark" in text and 'name="viewport"' in text and "Passed" in text
    assert "url(" not in text and "@import" not in text


def test_report_of_failed_run_escapes_text() -> None:
    run = full_run()
    run.violation("runhcs cold", "leak", "<b>a mount</b> & more")
    text = html.html(run)
    assert "Failed" in text and "&lt;b&gt;a mount&lt;/b&gt; &amp; more" in text and "<b>a" not in text
    bounded = full_run()
    assert judge(bounded, [Bound("start", "", 1.2, True)]) == 1
    assert "above 1.2" in html.html(bounded)
    assert judge(bounded, [Bound("stop", "", 1.2, True)]) == 2 and judge(bounded, []) == 0
    read(run)


def test_report_of_empty_and_small_runs() -> None:
    assert read(Run()).ids == ["environment"]
    run = Run()
    run.measure("start", "ms").add("alone", 3.0)
    run.measure("PSS", "kB", kind="memory").add("alone", 0.0)
    run.series("lifecycles", "1/s", "concurrent", kind="rate").add("alone", 1, 2.0)
    run.trend("RSS", "kB", "probe").add("alone", 1, 2.0)
    run.timeline("Create").add("alone", [])
    assert read(run).ids == ["distributions", "scaling", "trends", "memory", "environment"]  # and no empty phases


def drawn(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg.standalone(text, style.THEMES + style.CHARTS))


def test_distribution_dots_on_linear_scale() -> None:
    measure = Measure("start", "ms", samples={"a": [10.0, 20.0, 30.0, 40.0], "b": [20.0, 20.0]})
    run = Run(measures=[measure])
    dots = [
        (float(one.get("cx", "")), one.findtext(f"{SPACE}title"))
        for one in drawn(charts.distribution(run, measure)).iter(f"{SPACE}circle")
        if "dot c0" in one.get("class", "")
    ]
    assert [tooltip for _, tooltip in dots] == ["10.00 ms", "20.00 ms", "30.00 ms", "40.00 ms"]
    places = [x for x, _ in dots]
    steps = [later - earlier for earlier, later in pairwise(places)]
    assert max(steps) - min(steps) < 0.05 and steps[0] > 20  # linear from zero: equal steps


def test_distribution_with_wide_range_is_logarithmic() -> None:
    measure = Measure("start", "ms", samples={"a": [1.0, 10.0, 100.0]})
    text = charts.distribution(Run(measures=[measure]), measure)
    places = [float(one.get("cx", "")) for one in drawn(text).iter(f"{SPACE}circle") if "dot" in one.get("class", "")]
    assert abs((places[1] - places[0]) - (places[2] - places[1])) < 0.05
    assert "logarithmic" in text


def test_downsample_keeps_extremes() -> None:
    ordered = [float(value) for value in range(10000)]
    kept = charts.downsample(ordered)
    assert len(kept) == charts.MAX_DOTS and (kept[0], kept[-1]) == (0, 9999)


def test_forest_has_interval_and_goal() -> None:
    run = full_run()
    tree = drawn(charts.forest(run, run.measures, "Ratios"))
    (goal,) = [one for one in tree.iter(f"{SPACE}line") if one.get("class") == "goal"]
    (one_line,) = [one for one in tree.iter(f"{SPACE}line") if one.get("class") == "one"]
    assert goal.get("x1") == one_line.get("x1")  # the goal is 1
    intervals = [one for one in tree.iter(f"{SPACE}line") if one.get("class", "").startswith("stroke")]
    assert len(intervals) == 2
    for one in intervals:  # both ratios are about two
        assert float(one_line.get("x1", "")) < float(one.get("x1", "")) < float(one.get("x2", ""))
    assert charts.forest(Run(), [], "none") == ""


def test_timeline_bars_on_one_scale() -> None:
    run = full_run()
    bars = [
        one for one in drawn(charts.timeline(run, run.timelines[0])).iter(f"{SPACE}rect") if one.get("class") != "paper"
    ]
    tooltips = [one.findtext(f"{SPACE}title") for one in bars]
    assert tooltips == [
        "runhcs cold, spec: 2.00 ms, begins at 0 ms", "runhcs cold, HCS/open: 1.00 ms, begins at 1.50 ms",
        "runhcs cold, HCS: 4.00 ms, begins at 2.00 ms",
    ]  # fmt: skip
    widths = [float(one.get("width", "")) for one in bars]
    assert abs(widths[0] - 2 * widths[1]) < 0.1 and abs(widths[2] - 2 * widths[0]) < 0.1


def test_timeline_counts_short_phases() -> None:
    run = Run()
    run.timeline("Create").add("a", [("long", 0, 100), ("short", 1, 0.1), ("long/short", 2, 0.2)])
    text = charts.timeline(run, run.timelines[0])
    assert "and 2 below 0.3% of the whole" in text and text.count("<rect") == 1


def test_series_and_trend_lines_pass_through_points() -> None:
    run = full_run()
    (path,) = drawn(charts.lines(run, run.all_series[0])).iter(f"{SPACE}polyline")
    points = [tuple(map(float, one.split(","))) for one in path.get("points", "").split()]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(points)]
    assert len(points) == 3 and abs(slopes[0] - slopes[1]) < 0.01  # 3.1 x is a straight line
    (line,) = drawn(charts.trend(run, run.trends[0])).iter(f"{SPACE}polyline")
    assert len(line.get("points", "").split()) == 40


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0.1, 0.2), (1, 1.3), (3, 3), (0.004, 90), (1, 50000), (0.0, 1e7)])
def test_scale_ticks_within_range(low: float, high: float, log: bool) -> None:
    scale = svg.Scale(low, high, 0, 100, log=log)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 8 and ticks == sorted(set(ticks))
    assert all(scale.low * 0.99 <= tick <= scale.high * 1.01 for tick in ticks)
    assert scale(scale.low) == 0 and scale(scale.high) == 100


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    bright, dark = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("page", "colours"), [(style.LIGHT_PAGE, style.LIGHT), (style.DARK_PAGE, style.DARK)])
def test_colour_contrast(page: dict[str, str], colours: tuple[str, ...]) -> None:
    for ground in (page["paper"], page["card"]):
        assert all(contrast(page[name], ground) >= 4.5 for name in ("ink", "faint", "bad", "good"))
        assert all(contrast(colour, ground) >= 3 for colour in colours)
    assert len(colours) == svg.COLOURS


def test_chart_file_names_unique_ignoring_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = full_run()
    run.measure("Start", "ms").add("runc 2", 1.0)
    run.measure("start", "ms").add("runc 2", 1.0)
    artifacts.write(run, tmp_path)
    assert main(["charts", str(tmp_path / "results.json"), "--output", str(tmp_path / "images")]) == 0
    names = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert {"measure-start.svg", "measure-rpc-start.svg", "scaling-lifecycles-per-second.svg"} <= set(names)
    assert len(names) == len({name.lower() for name in names}) == len(list((tmp_path / "images").iterdir()))
    for path in (tmp_path / "images").iterdir():
        assert ElementTree.parse(path).getroot().tag == f"{SPACE}svg"
    assert len(list(svg_export.all_charts(run))) >= len(names)


def test_report_command_rewrites_all_files(tmp_path: Path) -> None:
    run = full_run()
    artifacts.write(run, tmp_path / "one")
    assert {path.name for path in (tmp_path / "one").iterdir()} == {
        "results.json", "env.json", "results.txt", "results.csv", "summary.csv", "results.bench", "report.html",
        "github-smaller-is-better.json", "github-bigger-is-better.json",
    }  # fmt: skip
    assert main(["report", str(tmp_path / "one" / "results.json"), "--output", str(tmp_path / "two")]) == 0
    for path in (tmp_path / "one").iterdir():
        assert (tmp_path / "two" / path.name).read_text() == path.read_text()
    assert main(["report", str(tmp_path / "absent.json")]) == 2


def test_closed_stdout_is_no_traceback(tmp_path: Path) -> None:
    artifacts.write(full_run(), tmp_path)
    command = [sys.executable, "-m", "bench", "report", str(tmp_path / "results.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 1


def slower(factor: float, machine: float = 1.0) -> Run:
    """full_run on a machine that is slower by one factor, with our shim slower by another."""
    run = full_run()
    for measure in run.measures:
        sign = 1 if measure.better == "lower" else -1
        for name, values in measure.samples.items():
            ours = factor if name == "runhcs cold" else 1.0
            measure.samples[name] = [value * (machine * ours) ** sign for value in values]
    return run


def test_compare_cancels_change_of_baseline() -> None:
    assert [one.verdict for one in changes(full_run(), full_run())] == ["", "", "", ""]
    found = {(one.measure.name, one.candidate): one for one in changes(full_run(), slower(1.5, machine=2.0))}
    ours = found["start", "runhcs cold"]
    assert 2.9 < ours.plain.value < 3.1 and ours.relative is not None and 1.45 < ours.relative.value < 1.55
    assert ours.verdict == "WORSE" and found["calls", "runhcs cold"].verdict == "WORSE"
    assert {one.verdict for one in changes(full_run(), slower(0.5)) if one.candidate == "runhcs cold"} == {"better"}
    only_machine = {one.candidate: one.verdict for one in changes(full_run(), slower(1.0, machine=2.0))}
    assert only_machine["runhcs cold"] == "" and only_machine["runc 2"] == "WORSE"
    few = full_run()
    few.measures[0].samples["runhcs cold"] = [1.0, 1.0]
    assert changes(full_run(), few)[1].verdict == "too few samples"
    warm = full_run()
    warm.environment["kernel"] = "7"
    assert environment_differences(full_run(), warm) == ["kernel differs: 6 before, 7 after"]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ([], 0), (["--fail-on-worse"], 1), (["--max-ratio", "start=1.2"], 1), (["--max-ratio", "start=2"], 0),
        (["--min-ratio", "calls@runhcs cold=0.9"], 1), (["--max-ratio", "stop=1"], 2), (["--only", "nobody"], 2),
        (["--max-ratio", "start@runc 2=1.2"], 0),
    ],
)  # fmt: skip
def test_compare_exit_status(words: list[str], status: int, tmp_path: Path) -> None:
    artifacts.write(full_run(), tmp_path / "a")
    artifacts.write(slower(1.5), tmp_path / "b")
    files = [str(tmp_path / one / "results.json") for one in "ab"]
    assert main(["compare", *files, *words]) == status
    assert load(Path(files[0])) != load(Path(files[1]))

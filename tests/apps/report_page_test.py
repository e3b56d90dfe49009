"""The page of a report in Chromium, from file:// as its readers open it."""

import math
import re
import shutil

import pytest
from playwright.sync_api import sync_playwright
from program import metrics, run

CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; on Debian tools/setup.sh installs it")
WIDE = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.fixture(scope="module")
def trained(workspace):
    done = run("train", workspace.config("shown"), "--set", "parallel.pp=2", "--report")
    assert done.returncode == 0, done.stderr
    return workspace.folder / "shown"


@pytest.fixture
def opened(browser):
    """Opens pages; nothing may go wrong in them, and nothing may be loaded."""
    contexts, mistakes = [], []

    def open_page(file, viewport=None, **options):
        contexts.append(browser.new_context(viewport=viewport or WIDE, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: mistakes.append(message.text))
        page.on("pageerror", lambda error: mistakes.append(str(error)))
        page.on("request", lambda request: mistakes.append(request.url)
                if not request.url.startswith(("file://", "data:")) else None)
        page.goto(file.as_uri())
        page.wait_for_selector("#ranks td")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert mistakes == []


def seconds(text):
    """The number of "12.3 ms" and the like."""
    number, unit = re.match(r"([\d.]+) (ns|µs|ms|s)$", text).groups()
    return float(number) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}[unit]


def column(page, table, title):
    """The texts of a table's column."""
    titles = page.locator(f"{table} th").all_inner_texts()
    at = titles.index(title) + 1
    return page.locator(f"{table} tbody td:nth-child({at})").all_inner_texts()


def drawn(page, which, what):
    """A figure of the last drawing of a timeline: its boxes, or the nanoseconds from and to which it goes."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return float(page.locator(".rows canvas").nth(which).get_attribute(f"data-{what}"))


def boxes(page, which):
    return drawn(page, which, "boxes")


def shown(page, which):
    return drawn(page, which, "from"), drawn(page, which, "to")


def press(page, which, *keys):
    page.locator(".rows").nth(which).focus()
    for key in keys:
        page.keyboard.press(key)


def test_the_runs_figures_are_on_the_page(trained, opened):
    page = opened(trained / "report.html")
    last = metrics(trained)[-1]
    tiles = page.locator("#summary .figure").all_inner_texts()
    # Three figures are shown, so the last one is off by half a unit of it.
    assert seconds(tiles[0]) == pytest.approx(last["step_ns"] / 1e9, rel=0.06)
    assert tiles[1] == f"{100 * last['bubble']:.1f}%"
    busy = [seconds(text) for text in column(page, "#ranks", "busy measured")]
    assert len(busy) == 2
    assert 1 - sum(busy) / (2 * last["step_ns"] / 1e9) == pytest.approx(last["bubble"], abs=0.06)
    assert sum(int(text) for text in column(page, "#lengths", "sequences")) == last["sequences"]
    assert column(page, "#rivals", "planner").count("slimpack") == 1
    assert str(trained) not in page.title() + page.locator("h1").inner_text()
    assert str(trained) in page.locator("#about").inner_text()
    assert "slimpack 0" in page.locator("#program").inner_text()
    for heading in ["predicted and measured", "packed and as planned", "Training so far", "Largest differences"]:
        assert page.get_by_role("heading", name=heading).is_visible()


def test_a_page_begins_with_how_the_plan_compares_with_the_fastest_other_planner(trained, opened):
    page = opened(trained / "report.html")
    ours, *others = page.evaluate("data.rivals.map((row) => [row.planner, row.makespan_ns, row.fits])")
    best = min((row for row in others if row[2]), key=lambda row: row[1])
    times = best[1] / ours[1]
    words = (f"{times:.2f} × as fast as" if times >= 1.005 else "As fast as" if times > 0.995
             else f"{100 / times - 100:.1f}% slower than")
    headline = page.locator("h1").inner_text()
    capped = " within the memory cap" if page.evaluate("data.memory_cap_bytes !== null") else ""
    assert headline == f"{words} {best[0]}, the fastest other planner{capped}"
    figures = page.locator("#figures").inner_text()
    assert f"{best[0]} takes" in figures and "Measured: the last step took" in figures
    assert page.locator("#summary .beside").first.inner_text().split(" · ")[1].startswith(best[0])


def test_memory_of_all_ways_to_run_the_step_is_in_one_chart(trained, opened):
    page = opened(trained / "report.html")
    chart = page.locator("#memory-chart .uplot")
    assert chart.count() == 1
    labels = chart.locator(".u-legend .u-series th").all_inner_texts()
    assert [label for label in labels if label][:3] == ["packed", "as planned", "as planned, measured"]
    highest = "Math.max(...document.querySelector('#memory-chart').chart.plot.data[2].filter(Number.isFinite))"
    peaks = page.evaluate("data.memory.predicted.ranks.map((bytes) => Math.max(...bytes))")
    for chosen, peak in [("fullest stage", max(peaks)), ("stage 0", peaks[0]), ("stage 1", peaks[1])]:
        page.get_by_label("stage", exact=True).select_option(chosen)
        assert page.evaluate(highest) == peak


def test_the_last_range_of_lengths_ends_with_the_longest_sequence(trained, opened):
    page = opened(trained / "report.html")
    longest = page.evaluate("Math.max(...data.packs.plan[0].forward.flat().map(([, , end]) => end))")
    last = column(page, "#lengths", "tokens of a sequence")[-1]
    assert last.split(" – ")[-1] == f"{longest:,}"


def test_a_plan_alone_shows_what_it_has(workspace, tmp_path, opened):
    plan = tmp_path / "plan.json"
    assert run("plan", workspace.config("alone"), "--set", "parallel.pp=2", "--out", plan).returncode == 0
    assert run("report", plan).returncode == 0
    page = opened(plan.with_suffix(".html"))
    assert page.locator(".timeline h4 b").all_inner_texts() == ["Packed", "As planned"]
    for section in ["#step", "#curves", "#errors"]:
        assert not page.locator(section).is_visible()


def test_the_pointer_shows_what_a_span_is(trained, opened):
    page = opened(trained / "report.html")
    canvas = page.locator(".rows canvas").nth(1)  # measured
    place = canvas.bounding_box()
    # The middle of the first forward of stage 0; --gutter is 132 pixels.
    start, length = page.evaluate("(row => [row.start[0], row.length[0]])(data.timelines.measured.rows[0])")
    middle = (start + length / 2) / shown(page, 1)[1]
    canvas.hover(position={"x": 132 + middle * (place["width"] - 132), "y": place["height"] / 4})
    tooltip = page.locator("#tooltip")
    assert tooltip.locator("b").inner_text() == "forward, MicroPack 0"
    text = tooltip.inner_text()
    for part in ["stage 0", "takes", "predicted", "activations", "document "]:
        assert part in text
    page.mouse.move(5, 5)
    assert not tooltip.is_visible()


def test_keys_zoom_and_move_all_timelines_of_a_group(trained, opened):
    page = opened(trained / "report.html")
    whole = [shown(page, which) for which in range(4)]
    begin, end = whole[0]
    assert (begin, end) == (0, max(page.evaluate("[data.timelines.predicted.makespan_ns, data.timelines.measured.makespan_ns]")))
    all_boxes = boxes(page, 1)
    press(page, 0, "+", "+")  # 0.7 of what is shown, around its middle, and again
    closer = (end * (1 - 0.49) / 2, end * (1 + 0.49) / 2)
    assert shown(page, 0) == shown(page, 1) == pytest.approx(closer)
    assert [shown(page, which) for which in (2, 3)] == whole[2:]  # the other group stays
    assert boxes(page, 1) < all_boxes
    press(page, 1, "ArrowRight")  # by 0.15 of what is shown
    assert shown(page, 0) == pytest.approx([time + 0.15 * 0.49 * end for time in closer])
    press(page, 1, "ArrowLeft")
    assert shown(page, 0) == pytest.approx(closer)
    press(page, 1, "0")
    assert shown(page, 0) == whole[0]
    press(page, 1, "-", "ArrowLeft")  # there is nothing outside the step
    assert shown(page, 0) == whole[0]
    assert boxes(page, 1) == all_boxes


def test_wheel_and_drag_move_like_keys(trained, opened):
    page = opened(trained / "report.html")
    begin, end = shown(page, 0)
    canvas = page.locator(".rows canvas").nth(0)
    place = canvas.bounding_box()
    middle = 132 + (place["width"] - 132) / 2  # the labels take 132 pixels
    canvas.hover(position={"x": middle, "y": 10})
    page.mouse.wheel(0, -100)  # e to the power of −0.25, around the pointer
    part = math.exp(-0.25)
    zoomed = shown(page, 0)
    assert zoomed == pytest.approx((end * (1 - part) / 2, end * (1 + part) / 2), rel=0.01)
    page.mouse.down()
    page.mouse.move(place["x"] + middle + 50, place["y"] + 300, steps=4)  # also outside the canvas
    page.mouse.up()
    moved = 50 / (place["width"] - 132) * (zoomed[1] - zoomed[0])
    assert shown(page, 0) == pytest.approx([time - moved for time in zoomed], rel=0.01)
    page.get_by_role("button", name="show all").nth(0).click()
    assert shown(page, 0) == (begin, end)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_readers_scheme(trained, opened, scheme):
    page = opened(trained / "report.html", color_scheme=scheme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red = int(re.match(r"rgb\((\d+)", background)[1])
    assert red > 240 if scheme == "light" else red < 40


def test_a_narrow_screen_does_not_scroll_sideways(trained, opened):
    page = opened(trained / "report.html", viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator(".rows canvas").nth(0).bounding_box()["width"] <= 360


def test_print_is_light_and_without_buttons(trained, opened):
    page = opened(trained / "report.html", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.get_by_role("button").first.is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.fixture(scope="module")
def large(workspace, tmp_path_factory):
    """The page of a plan with 5,000 spans or more on 128 ranks."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "lengths.txt").write_text("".join(f"{n * 37 % 900 + 100}\n" for n in range(200)))
    done = run("plan", workspace.config("large", num_hidden_layers=16), "--lengths", folder / "lengths.txt", "--set", "parallel.pp=16",
               "--set", "parallel.dp=8", "--set", "plan.memory_cap=none", "--out", folder / "plan.json")
    assert done.returncode == 0, done.stderr
    assert run("report", folder / "plan.json").returncode == 0
    return folder / "plan.html"


def test_the_table_has_all_ranks_and_says_that_it_scrolls(large, trained, opened):
    page = opened(large)
    assert page.locator("#ranks tbody tr").count() == 128
    assert page.locator("#ranks-lead").inner_text() == "128 ranks; the table scrolls."
    page = opened(trained / "report.html")
    assert page.locator("#ranks-lead").inner_text() == "2 ranks."


def test_mfu_is_shown_where_the_peak_of_the_hardware_is_known(large, opened):
    page = opened(large)
    assert re.fullmatch(r"\d+\.\d%", page.locator("#summary .tile", has_text="MFU").locator(".figure").inner_text())
    assert all(re.fullmatch(r"\d+\.\d%", text) for text in column(page, "#rivals", "MFU"))


def test_thousands_of_spans_stay_fluid(large, opened):
    page = opened(large)
    spans = page.evaluate("data.timelines.predicted.rows.reduce((sum, row) => sum + row.start.length, 0)")
    assert spans >= 5000
    canvas = page.locator(".rows canvas").nth(1)
    width = canvas.bounding_box()["width"]
    visible = page.evaluate("document.querySelectorAll('.rows')[1].clientHeight / 8 + 1")  # rows of 8 pixels
    # A box for each pixel of a visible row at most, whatever the zoom, and near the end of it few.
    assert boxes(page, 1) <= visible * width
    counts = []
    for _ in range(20):
        press(page, 1, "+")
        counts.append(boxes(page, 1))
    assert max(counts) <= min(visible * width, spans)
    assert counts[-1] < 200

"""The page in a real browser: it is what users send to colleagues, who have neither the tool nor perhaps a network."""

import json
import re

import plotly.graph_objects as go
import pytest
from mortise import figures, page
from playwright.sync_api import Page, expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
PATIENCE_MS = 300_000  # for a browser to start, a page to be drawn: turns a hang into a failure, nothing else
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS)
        yield started
        started.close()


class Opened:
    """A page opened without a network, with everything it said and asked for."""

    def __init__(self, page: Page, path):
        self.page, self.said, self.asked = page, [], []
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(f"file://{path}")
        page.wait_for_selector(".js-plotly-plot .main-svg")
        page.wait_for_function("[...document.querySelectorAll('.plotly-graph-div')].every(p => p.querySelector('.main-svg'))")


@pytest.fixture
def reported(cli, browser, churn, tmp_path):
    """Compares, opens the page, and gives it with the document it was made from."""

    def run(*words):
        page, data = tmp_path / "a page with <odd> & signs.html", tmp_path / "data.json"
        done = cli("compare", "--seed", "1", "--html", str(page), "--json", str(data), *words)
        context = browser.new_context(offline=True, viewport={"width": 1200, "height": 900})
        return Opened(context.new_page(), str(page).replace("%", "%25")), json.loads(data.read_text()), done

    return run


def test_the_page_stands_alone_and_draws_everything(reported, churn):
    opened, document, _ = reported("--rounds", "4", "--arms", "glibc,toy", "--", str(churn), "6000000", "5")
    page = opened.page
    assert opened.said == [] and len(opened.asked) == 1, "a page that says nothing and asks for nothing but itself"
    assert page.locator("#verdict").inner_text() == document["conclusion"]["sentence"]
    assert page.locator("#arms tbody tr").count() == 2
    for plot in ("front", "runs", "memory", "sizes", "latency-malloc", "latency-free"):
        assert page.locator(f"#{plot} .main-svg").count() > 0, plot
    expect(page.locator("#latency-malloc .scatterlayer .trace"), "a curve for each arm").to_have_count(2)
    assert page.evaluate("document.getElementById('latency-malloc').layout.yaxis.type") == "log"
    assert page.locator("#latency tr").count() == 1 + 3 * 2 and page.locator("#calls tr").count() == 1 + 2
    expect(page.locator("#runs .scatterlayer .point")).to_have_count(8)  # waits: a slow machine draws later
    assert json.loads(page.locator("#data").text_content())["arms"].keys() == document["arms"].keys()


def test_hovering_shows_the_run(reported, churn):
    opened, document, _ = reported("--rounds", "4", "--arms", "glibc,toy", "--", str(churn), "200000", "5")
    point = opened.page.locator("#runs .scatterlayer .point").first
    text = opened.page.locator("#runs .hoverlayer .hovertext")
    for _ in range(1000):  # a pointer that comes before the plot listens is not seen: it goes away and comes again
        point.scroll_into_view_if_needed()
        box = point.bounding_box()
        opened.page.mouse.move(0, 0)
        opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        opened.page.wait_for_timeout(200)
        if text.count():
            break
    shown = opened.page.locator("#runs .hoverlayer").text_content()
    # Both arms' first points may lie under the pointer: the text is that of one of them, with its own number of faults.
    firsts = {name: next(run for run in arm["runs"] if run["round"] == 1) for name, arm in document["arms"].items()}
    texts = [rf"{name}, round 1, place \d+, {run['minor_faults']} faults" for name, run in firsts.items()]
    assert any(re.search(text, shown) for text in texts), shown
    assert opened.said == []


def test_a_sweep_draws_its_curves_and_rings_the_default(reported):
    words = [
        "--arms",
        "a=env:A=1,b=env:A=2",
        "--sweep",
        "K={1,2,3,4,5}",
        "--rounds",
        "3",
        "--",
        "sh",
        "-c",
        "sleep 0.01",
    ]
    opened, document, _ = reported(*words)
    assert opened.said == []
    kind = "time" if figures.peaks_are_exact(document, list(document["arms"].values())) else "memory"
    runs = sum(run["kind"] == kind for entry in document["arms"].values() for run in entry["runs"])
    drawn = opened.page.locator("#curves .scatterlayer .point")
    expect(drawn, "runs, points, and a ring for each default").to_have_count(runs + 2 * 6 + 2)
    labels = opened.page.locator("#curves .textpoint").all_text_contents()
    assert sorted(set(labels)) == ["1", "2", "3", "4", "5", "unset"]
    assert len(document["curves"]["a"]["points"]) == 6


def test_what_a_law_comes_near_to_is_drawn_with_its_interval():
    """The time without collecting and the least memory: where no setting of the knob gets."""
    figure, mib = go.Figure(), 1 << 20
    page.limits(figure, {"a": 1.5, "c": 40 * mib, "intervals": {"a": (1.2, 1.7), "c": (30 * mib, 50 * mib)}}, "#123456")
    drawn = {(shape.type, shape.x0, shape.x1, shape.y0, shape.y1) for shape in figure.layout.shapes}
    assert {("line", 1.5, 1.5, 0, 1), ("line", 0, 1, 40, 40), ("rect", 1.2, 1.7, 0, 1), ("rect", 0, 1, 30, 50)} == drawn


def test_a_number_that_is_better_the_larger_is_on_the_curve_as_its_inverse():
    runs = [{"kind": "memory", "knob": knob, "metric": 4.0, "peak_rss_bytes": 5 << 20, "processes": 2} for knob in (None, "1")]
    points = [{"knob": knob, "time": 0.25, "memory": 5 << 20} for knob in ("unset", "1")]
    settings = {"metric_regex": "x", "metric_better": "more", "memory": "peak"}
    document = {"settings": settings, "baseline_bytes": 0, "arms": {"a": {"runs": runs}}, "curves": {"a": {"points": points, "law": None}}}
    figure = page.knobs(document)
    assert {x for trace in figure.data for x in trace.x} == {0.25} and "inverse" in figure.layout.xaxis.title.text


def test_names_and_outputs_cannot_write_into_the_page(reported):
    nasty = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    opened, _, done = reported(
        "--rounds", "2", "--check", "exit", "--arms", "glibc,toy", "--", "sh", "-c", f": '{nasty}'"
    )
    assert opened.said == [] and len(opened.asked) == 1
    assert nasty in opened.page.locator("h1").inner_text()
    assert done.returncode == 3


def test_a_failed_arm_is_shown_with_its_reason(reported):
    opened, _, done = reported("--rounds", "2", "--arms", "a=env:CODE=0,b=env:CODE=1", "--", "sh", "-c", "exit $CODE")
    assert done.returncode == 1 and opened.said == []
    assert "ended with exit status" in opened.page.locator("tr.failed").inner_text()


def test_how_to_repeat_names_every_option_that_was_given(cli, churn, tmp_path):
    words = ["--rounds", "2", "--warmup", "0", "--check", "exit", "--timeout", "90s", "--fail-if", "toy slower 300%", "--time", "wall", "--repeat-inside", "3"]
    page = tmp_path / "page.html"
    cli("compare", "--arms", "glibc,toy", "--html", str(page), *words, "--no-profile", "--latency", "off", "--", str(churn), "1000")
    repeat = page.read_text().partition("<h2>To repeat</h2><pre>")[2].partition("</pre>")[0]
    for option in ("--rounds 2", "--warmup 0", "--check exit", "--timeout 90s", "--repeat-inside 3", "toy slower 300%", "--time wall", "--arms glibc --arms toy"):
        assert option in repeat, repeat
    assert "--metric-less" not in repeat

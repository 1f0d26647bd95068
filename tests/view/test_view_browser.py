"""The workbench in a real browser: clicks, keys, widths, dark mode, and who can read it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from view_results import record, screening
from view_workbench import Workbench

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.chrome.service import Service  # noqa: E402 - after the check that it is here
from selenium.webdriver.common.keys import Keys  # noqa: E402

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    "--window-size=1400,1100",
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="no Chromium with its driver is installed"),
]
ACCESSIBLE = Path(__file__).with_name("accessible.js").read_text("utf-8")
FOCUS = """
const node = document.activeElement;
const row = node.matches("[role=tree]") && node.querySelector(".active");
const seen = (style) => parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none";
const shown = (one) => one && seen(getComputedStyle(one));
const is_shown = Boolean(shown(node) || shown(row) || node.matches("main, body, iframe"));
return [node.tagName, node.outerHTML.slice(0, 80), is_shown];
"""


class Browser:
    """A page of the workbench, and what one does with it."""

    def __init__(self, driver: Any, workbench: Workbench) -> None:
        self.driver, self.workbench = driver, workbench
        self.go(f"/?token={workbench.guard.token}")
        loaded = "return document.readyState === 'complete' && document.title.startsWith('Results')"
        self.wait(lambda: self.run(loaded))  # the entry page leads on by itself

    def go(self, path: str) -> None:
        self.driver.get(f"http://127.0.0.1:{self.workbench.guard.port}{path}")

    def item(self, place: str, rest: str = "") -> None:
        self.go(f"/item/{self.workbench.id(place)}{rest}")

    def run(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> Any:
        self.wait(lambda: self.all(selector))
        return self.all(selector)[0]

    def texts(self, selector: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector)

    def wait(self, until: Callable[[], Any], seconds: float = 30.0) -> Any:
        end = time.monotonic() + seconds
        while not (found := until()):
            assert time.monotonic() < end, self.driver.page_source[-3000:]
            time.sleep(0.05)
        return found

    def size(self, width: int, height: int = 900) -> None:
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)

    def colours(self, scheme: str) -> None:
        # Without motion, so that what is clicked has come to rest.
        wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def errors(self) -> list[str]:
        return [one["message"] for one in self.driver.get_log("browser") if one["level"] == "SEVERE"]


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in FLAGS:
        options.add_argument(flag)
    opened = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield opened
    opened.quit()


@pytest.fixture
def browser(driver: Any, workbench: Workbench) -> Iterator[Browser]:
    found = Browser(driver, workbench)
    found.size(1400)
    found.colours("light")
    yield found
    assert found.errors() == []


def compared(browser: Browser, *, more: str = "") -> None:
    runs = [browser.workbench.id(f"runs/{name}") for name in ("reference", "target")]
    browser.go(f"/compare?run={runs[0]}&run={runs[1]}{more}")
    browser.wait(lambda: browser.all(".tree-box .row"))


def test_the_token_leaves_the_address_and_the_script_cannot_read_the_cookie(browser: Browser) -> None:
    assert "token" not in browser.driver.current_url
    assert browser.run("return document.cookie") == ""
    assert len(browser.all(".result")) == 14


def test_two_recordings_are_chosen_and_compared_in_the_order_of_the_choice(browser: Browser) -> None:
    reference, target = (browser.workbench.id(f"runs/{name}") for name in ("reference", "target"))
    button = browser.all("#chosen [data-need]")[0]
    assert not button.is_displayed()
    browser.one(f"#run-{target}").click()
    assert not button.is_enabled()
    browser.one(f"#run-{reference}").click()
    button.click()
    browser.wait(lambda: browser.all(".tree-box .row"))
    assert browser.driver.current_url.endswith(f"/compare?run={target}&run={reference}")
    assert browser.texts("h1") == ["runs/target against runs/reference"]


def test_a_search_and_a_kind_narrow_the_list(browser: Browser) -> None:
    field = browser.one("header input[type=search]")
    field.send_keys("libhccl", Keys.ENTER)
    browser.wait(lambda: len(browser.all(".result")) == 2)
    browser.all(".kinds a[href*='kind=doctor']")[0].click()
    browser.wait(lambda: browser.texts(".result h2") == ["job.json"])
    assert browser.one("header input[type=search]").get_attribute("value") == "libhccl"


def test_a_new_result_appears_while_the_list_is_open(driver: Any, own: Workbench) -> None:
    record(own.bench.folder.root / "first")
    browser = Browser(driver, own)
    browser.one(f"#run-{own.id('first')}").click()
    record(own.bench.folder.root / "second")
    browser.wait(lambda: len(browser.all(".result")) == 2)
    browser.wait(lambda: browser.texts(".news") == ["The list has changed."])
    chosen = "return [...document.querySelectorAll('.result input')].map((box) => [box.id, box.checked])"
    kept = {f"run-{own.id('first')}": True, f"run-{own.id('second')}": False}
    browser.wait(lambda: dict(browser.run(chosen)) == kept)


def test_the_tree_opens_at_the_first_divergence_and_shows_it(browser: Browser) -> None:
    compared(browser)
    browser.wait(lambda: "Both sides' statistics" in browser.one(".pane").text)
    (first,) = browser.all(".row.first")
    assert "aten::tanh" in first.text
    assert first.get_attribute("aria-selected") == "true"
    assert "line_4 = 4" in browser.one(".pane .excerpt").text
    assert browser.all(".pane .histogram")


def test_the_tree_is_gone_through_by_keys(browser: Browser) -> None:
    compared(browser)
    browser.wait(lambda: browser.all(".pane table"))
    box = browser.one(".tree-box")
    active = "return document.querySelector('.tree-box .active .name').textContent"
    box.send_keys(Keys.HOME)
    assert browser.run(active) == "forward"
    before = len(browser.all(".row"))
    box.send_keys(Keys.ARROW_LEFT)
    assert len(browser.all(".row")) < before
    assert browser.all(".row")[0].get_attribute("aria-expanded") == "false"
    box.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    assert browser.run(active) == "embed"
    box.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER)
    browser.wait(lambda: "embed" in browser.texts(".pane .quiet")[0])
    box.send_keys("n")
    browser.wait(lambda: "layers.1.attn" in browser.texts(".pane .quiet")[0])
    assert browser.run(
        "return document.querySelector('.tree-box').getAttribute('aria-activedescendant')"
    ) == browser.all(".row.first")[0].get_attribute("id")
    box.send_keys(Keys.END)
    assert browser.run(active) == browser.texts(".row .name")[-1]


def test_a_filter_keeps_what_matches_and_the_way_to_it(browser: Browser) -> None:
    compared(browser)
    browser.run("document.querySelector('.tree-box').focus()")
    browser.one(".tree-box").send_keys("/")
    field = browser.driver.switch_to.active_element
    field.send_keys("layers.0 tanh")
    browser.wait(lambda: browser.texts(".compared .range") == ["2 calls match"])
    shown = ["forward", "layers", "0", "attn", "aten::tanh", "mlp", "aten::tanh"]
    assert browser.texts(".row .name") == shown
    field.send_keys(Keys.ESCAPE)
    browser.wait(lambda: browser.texts(".compared .range") == [""])


def test_the_slider_goes_from_step_to_step(browser: Browser) -> None:
    compared(browser, more="&all=1")
    slider = browser.one(".slider input")
    assert browser.one(".slider output").text == "0"
    before = browser.texts(".row .chip")
    slider.send_keys(Keys.ARROW_RIGHT)
    browser.wait(lambda: browser.texts(".row .chip") != before)
    assert browser.one(".slider output").text == "1"
    assert slider.get_attribute("aria-valuetext") == "step 1"


def test_rows_are_sorted_filtered_and_opened(browser: Browser) -> None:
    browser.item("runs/reference", "/rows")
    assert browser.texts(".tools [role=status]") == ["Rows 1 to 24 of 24"]
    browser.run("document.querySelector('th:last-child .sort').click()")
    browser.wait(lambda: browser.all("th[aria-sort=descending]"))
    browser.one("#words").send_keys("layers.1.mlp", Keys.ENTER)
    browser.wait(lambda: browser.texts(".tools [role=status]") == ["Rows 1 to 3 of 3"])
    assert browser.all("th[aria-sort=descending]")
    assert set(browser.texts("tbody tr td:nth-child(5)")) == {"layers.1.mlp"}
    browser.all("tbody a")[0].click()
    browser.wait(lambda: browser.texts("h1") == ["aten::tanh"])
    assert browser.all(".histogram")


def test_a_recording_shows_its_loss_with_values_where_one_points(browser: Browser) -> None:
    browser.item("runs/reference")
    plot = browser.one("[data-load] .plot")
    plot.send_keys(Keys.END)
    tip = browser.one("[data-load] .tip")
    assert tip.is_displayed()
    assert "step 2" in tip.text


def test_curves_of_runs_that_one_ticks_are_drawn_on_a_log_scale(browser: Browser) -> None:
    browser.go("/curves")
    for name in ("reference", "target"):
        browser.one(f"input[value='{browser.workbench.id(f'runs/{name}')}']").click()
    browser.one("input[name=log]").click()
    browser.one(".curves button").click()
    browser.wait(lambda: browser.all(".chart"))
    assert browser.texts(".chart .axis-title")[0] == "loss (log scale)"
    assert [text.split()[0] for text in browser.texts(".chart .legend li")] == ["runs/target", "runs/reference"]


def test_a_tuning_shows_the_next_candidate_by_itself(driver: Any, own: Workbench) -> None:
    journal = own.bench.folder.root / "run.job"
    journal.write_text('{"jumar_job": 1, "name": "model.onnx"}\n' + screening(1, 1.2, 1e-6))
    browser = Browser(driver, own)
    browser.item("run.job")
    assert len(browser.all(".candidates tbody tr")) == 1
    with journal.open("a") as file:
        file.write(screening(2, 1.5, 1e-4))
    browser.wait(lambda: len(browser.all(".candidates tbody tr")) == 2)
    browser.wait(lambda: browser.all("#front-title"))
    assert browser.all(".candidates .span")[0].size["width"] > 0
    journal.unlink()
    browser.wait(lambda: "This result is gone" in browser.texts(".news")[0])
    assert len(browser.all(".candidates tbody tr")) == 2  # what was shown stays


def test_a_saved_page_works_in_its_frame_and_reads_nothing_of_the_workbench(browser: Browser) -> None:
    browser.item("accuracy.html")
    browser.driver.switch_to.frame(browser.one("iframe"))
    assert "The runs diverge first" in browser.one("h2#verdict").text
    assert browser.run("return document.documentElement.classList.contains('scripted')")
    assert browser.run("return self.origin") == "null"
    reached = "const done = arguments[0]; fetch('/').then(() => done('read'), () => done('refused'));"
    assert browser.driver.execute_async_script(reached) == "refused"
    assert browser.run("try { return parent.document.title } catch (error) { return error.name }") == "SecurityError"
    browser.driver.switch_to.default_content()
    browser.driver.get_log("browser")  # what was refused on purpose


def test_the_timeline_of_a_profile_is_drawn(browser: Browser) -> None:
    browser.item("profiled")
    canvas = browser.one(".stage canvas")
    browser.wait(lambda: canvas.size["height"] > 20)
    browser.one(".stage").send_keys("w")
    assert browser.texts(".trace .range") != [""]


PAGES = {
    "list": "/",
    "recording": "runs/reference",
    "killed": "runs/killed",
    "rows": "runs/reference/rows",
    "call": "runs/reference/row?step=0&seq=3",
    "comparison": "compare",
    "saved": "accuracy.html",
    "port": "ported",
    "doctor": "job.json",
    "profile": "profiled",
    "journal": "tuning/aoe_workspace/reference_0123456789abcdef.job",
    "bank": "tuning/jumar_tune_bank.sqlite3",
    "curves": "curves",
    "missing": "/nothing",
}


def show(browser: Browser, name: str) -> None:
    """Open a page and wait until its scripts have drawn."""
    place = PAGES[name]
    if name == "comparison":
        compared(browser, more="&all=1")
        browser.wait(lambda: browser.all(".pane table"))
    elif name == "curves":
        browser.go(f"/curves?run={browser.workbench.id('runs/reference')}&what=gradient")
        browser.wait(lambda: browser.all(".chart"))
    elif place.startswith("/"):
        browser.go(place)
    else:
        item, rest = next(
            (place[: len(known)], place[len(known) :]) for known in ("runs/reference", place) if place.startswith(known)
        )
        browser.item(item, rest)
        browser.wait(lambda: not browser.all("[data-job]"))
    if name == "recording":
        browser.wait(lambda: browser.all("[data-load] .plot"))
    if name == "missing":
        browser.driver.get_log("browser")  # the status 404 is told there


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 420])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible(browser: Browser, name: str, width: int, scheme: str) -> None:
    browser.size(width)
    browser.colours(scheme)
    show(browser, name)
    assert "\n".join(browser.run(ACCESSIBLE)) == ""


@pytest.mark.parametrize("name", ["list", "comparison", "rows", "curves", "bank"])
def test_the_tab_key_reaches_every_control_and_one_sees_where_it_is(browser: Browser, name: str) -> None:
    show(browser, name)
    browser.run("document.activeElement.blur()")
    seen = set()
    for _ in range(60):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        tag, html, is_shown = browser.run(FOCUS)
        assert is_shown, f"no one sees that {html} has the focus"
        if tag == "BODY" or (html in seen and len(seen) > 12):
            break
        seen.add(html)
    assert len(seen) > 5


def test_the_checks_see_what_is_wrong(browser: Browser) -> None:
    browser.run("""
        document.querySelector("main").insertAdjacentHTML("beforeend", `
            <h2>one</h2><h4>too deep</h4><button></button><input><img src="data:,"><div id="results"></div>
            <p style="color:#999;background:#aaa">faint</p><b tabindex="3">x</b><p style="width:3000px">wide</p>`);
        document.documentElement.removeAttribute("lang");
    """)
    told = " ".join(browser.run(ACCESSIBLE))
    for rule in (
        "language",
        "leave out no level",
        "controls have names",
        "contrast",
        "ids are unique",
        "tab key",
        "sideways",
    ):
        assert rule in told, told

"""A headless Chromium that has logged in to an Airflow."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from left_behind import current_test, folder_of
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select
from urllib3.exceptions import HTTPError
from waiting import DEADLINE_S, wait_until

from demo.airflow import LocalAirflow

T = TypeVar("T")

PICTURES: Final = "COSPARK_PICTURES"
"""If set, pictures of the page are written to this folder."""

_PHONE: Final = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}

_WORDS: Final = """
    const words = (each) => (each?.innerText ?? "").replace(/[^\\S\\n]+/g, " ");
"""
_ALL_WORDS: Final = f"{_WORDS} return words(document.body);"
_FIRST: Final = f"""{_WORDS}
    const [css, text] = arguments;
    const holds = (each) => !text || (each.checkVisibility() && words(each).includes(text));
    return [...document.querySelectorAll(css)].find(holds) ?? null;
"""
"""The page looks itself: WebDriver would be called for each element, and takes a hundred times as long."""
_DRAWN_WORDS: Final = """
    const words = [];
    const look = (root) => root.querySelectorAll("*").forEach((each) => {
        if (each.shadowRoot) words.push(each.shadowRoot.textContent), look(each.shadowRoot);
    });
    look(document);
    return words.join(" ");
"""
_IS_DRAWN: Final = """
    const found = [];
    const look = (root) => root.querySelectorAll("*").forEach((each) => {
        if (each instanceof HTMLCanvasElement) found.push(each);
        if (each.shadowRoot) look(each.shadowRoot);
    });
    look(document);
    return found.some((each) => each.width && each.getContext("2d")?.getImageData(0, 0, each.width, each.height)
        .data.some((part) => part));
"""
_NOTE_WHAT_IS_PRESSED: Final = """
    arguments[0].scrollIntoView({ block: "nearest", behavior: "instant" });
    [window.wanted, window.pressed, window.clicked] = [arguments[0], null, null];
    addEventListener("click", (event) => { window.clicked = event.target; }, { capture: true, once: true });
    addEventListener("pointerdown", (event) => {
        [window.pressed, window.pressedMs] = [event.target, performance.now()];
        performance.clearResourceTimings();
    }, { capture: true, once: true });
"""
_IS_CLICKED: Final = "return !window.wanted || window.wanted.contains(window.clicked)"
"""A new document doesn't know what was wanted."""
_PRESSED_FOR_MS: Final = "return performance.now() - window.pressedMs"
_WAITS_TO_DRAW: Final = """
    return performance.getEntriesByType("resource").some((answer) => answer.responseStatus !== 304);
"""
_LONG_MS: Final = 30_000
"""The page doesn't wait longer for a button to be released."""
_NOTE_WHEN_SHOWN: Final = """
    (function look() {
        if (!document.querySelector(%s)) return setTimeout(look, 4);
        requestAnimationFrame(() => requestAnimationFrame(() => { window.shownMs = performance.now(); }));
    })();
"""


class Browser:
    """A browser whose actions wait until they are possible.

    :param airflow: where it has logged in
    """

    def __init__(self, driver: Chrome, airflow: LocalAirflow) -> None:
        self.driver = driver
        self._airflow = airflow

    def open(self, path: str) -> None:
        self.driver.get(f"{self._airflow.url}{path}")

    def in_frame(self) -> None:
        """Switch to the frame that Airflow shows."""
        self.driver.switch_to.frame(self._wait(lambda: self.driver.find_element("css selector", "iframe"), "a frame"))

    def find(self, css: str, text: str = "") -> WebElement:
        """The first such element with this in its text."""
        return self._wait(lambda: self._first(css, text), f"{css} with {text!r}")

    def click(self, css: str, text: str = "") -> None:
        def clicked() -> bool:
            self._press(css, text)
            self._hand().release().perform()
            try:
                return bool(self.run(_IS_CLICKED))
            except WebDriverException:  # its document has gone
                return True

        self._wait(clicked, f"{css} with {text!r} can be clicked")

    def click_slowly(self, css: str, text: str = "", *, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Press, and release only when the page would have drawn something else.

        :param meanwhile: what makes it do so, if it doesn't anyway: called when the button is down
        """

        def clicked() -> bool:
            self._press(css, text)
            meanwhile()
            self._wait(lambda: self.run(_WAITS_TO_DRAW), "an answer that is new")
            soon = float(self.run(_PRESSED_FOR_MS)) < _LONG_MS
            self._hand().release().perform()
            return soon

        self._wait(clicked, f"{css} with {text!r} can be clicked")

    def offline(self, offline: bool) -> None:
        """Cut the browser off from all servers, or connect it again."""
        self.driver.set_network_conditions(offline=offline, latency=0, throughput=-1)

    def write(self, css: str, text: str) -> None:
        """Replace the content of a field."""
        field = self.find(css)
        field.clear()
        field.send_keys(text, Keys.TAB)

    def choose(self, css: str, words: str) -> None:
        """Choose an option of a list."""
        Select(self.find(css)).select_by_visible_text(words)

    def see(self, *words: str) -> None:
        """Wait until all of this is shown."""

        def seen() -> bool:
            text = self.text
            return all(each in text for each in words)

        self._wait(seen, f"{words}")

    def see_no_more(self, css: str, text: str) -> None:
        self._wait(lambda: self._first(css, text) is None, f"no {css} with {text!r} any more")

    @property
    def text(self) -> str:
        return str(self.run(_ALL_WORDS))

    def run(self, script: str, *arguments: str | WebElement) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait_for_drawing(self) -> None:
        """Wait until something is drawn on the timeline's canvas."""
        self._wait(lambda: self.run(_IS_DRAWN), "a drawing")

    def see_drawn_at(self, css: str, *words: str, share: float, down: int) -> None:
        """Point at a place of a drawing that may still move, until the drawing library shows all of this.

        :param share: how far to the right, as a share of its width
        :param down: how many pixels below its upper edge
        """

        def seen() -> bool:
            element = self.find(css)
            width, height = element.size["width"], element.size["height"]
            x, y = round(width * (share - 0.5)), round(down - height / 2)
            for aside in (1, 0):  # a pointer that stays where it is tells the page nothing
                self._hand().move_to_element_with_offset(element, x + aside, y).perform()
            drawn = str(self.run(_DRAWN_WORDS))
            return all(each in drawn for each in words)

        self._wait(seen, f"{words}")

    def note_when_shown(self, *css: str) -> None:
        """Have each document note when the first such element was painted, on its own clock."""
        script = _NOTE_WHEN_SHOWN % json.dumps(", ".join(css))
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})

    def shown_after_ms(self) -> float:
        """The time since the start of the navigation; see :meth:`note_when_shown`."""
        return float(self._wait(lambda: self.run("return window.shownMs"), "the element is shown"))

    def as_phone(self) -> None:
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", _PHONE)

    def is_too_wide(self) -> bool:
        """Whether the page scrolls sideways. A phone shrinks a page that does, so that its window is as wide."""
        return bool(self.run("const page = document.documentElement; return page.scrollWidth > page.clientWidth"))

    def complaints(self) -> list[str]:
        """Errors of scripts and refused requests since the last call."""
        entries: list[dict[str, Any]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def picture(self, name: str) -> None:
        """Save a picture for the docs, if the folder for pictures is set."""
        if folder := os.environ.get(PICTURES):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(f"{folder}/{name}.png")

    def _press(self, css: str, text: str) -> None:
        """Press a button of the mouse on such an element.

        The page may move it while the mouse is under way. What was pressed instead isn't clicked: the mouse is moved
        away before it is released.
        """

        def press() -> bool:
            element = self.find(css, text)
            self.run(_NOTE_WHAT_IS_PRESSED, element)
            self._hand().click_and_hold(element).perform()
            if self.run("return window.wanted?.contains(window.pressed)"):
                return True
            away = self._hand()
            away.w3c_actions.pointer_action.move_to_location(0, 0).release()  # type: ignore[no-untyped-call]
            away.perform()
            return False

        self._wait(press, f"{css} with {text!r} can be pressed")

    def _hand(self) -> ActionChains:
        return ActionChains(self.driver, duration=0)

    def _first(self, css: str, text: str) -> WebElement | None:
        found: WebElement | None = self.run(_FIRST, css, text)
        return found

    def _wait(self, look: Callable[[], T | None], what: str) -> T:
        def again() -> T | None:
            try:
                return look()
            except (NoSuchElementException, StaleElementReferenceException):  # the page has just changed
                return None

        return wait_until(again, what=lambda: f"not shown: {what}: {self.text[:2000]}")


@contextmanager
def browsing(airflow: LocalAirflow, *, dark: bool = False) -> Iterator[Browser]:
    """:param dark: whether the user has chosen Airflow's dark mode"""
    options = Options()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or "chromium"
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1400,900"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver") or "chromedriver"))
    driver.set_page_load_timeout(DEADLINE_S)
    driver.set_script_timeout(DEADLINE_S)
    driver.command_executor.client_config.timeout = 2 * DEADLINE_S  # type: ignore[union-attr]
    try:
        browser = Browser(driver, airflow)
        browser.open("/static/pin_32.png")
        driver.add_cookie({"name": "_token", "value": airflow.api.token, "path": "/"})
        browser.run(f"localStorage.setItem('theme', '{'dark' if dark else 'light'}')")
        yield browser
    except BaseException:
        folder = folder_of(current_test())
        # The browser or its driver may be gone, which must not hide why the test has failed.
        with suppress(WebDriverException, HTTPError):
            driver.save_screenshot(str(folder / "page.png"))
            (folder / "page.html").write_text(driver.page_source)
        raise
    finally:
        driver.quit()

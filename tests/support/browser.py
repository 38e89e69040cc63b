"""A real browser for tests of pages: Debian's Chromium, driven over WebDriver on loopback."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

CHROMIUM = Path("/usr/bin/chromium")
DRIVER = Path("/usr/bin/chromedriver")

#: A page's first load on a machine that also runs Airflow and three databases takes its time.
SECONDS = 60

_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # its own sandbox refuses to run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-proxy-server",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-search-engine-choice-screen",
    "--lang=en-US",
    "--window-size=1600,1200",
)


class Browser:
    """What a person does: open, type, click, read. Whatever is looked for is waited for."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get(url)

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        """The first true answer. An element that went away while a page was being drawn anew is no answer."""
        deadline = time.monotonic() + SECONDS
        while True:
            with suppress(WebDriverException, StopIteration):
                if found := condition():
                    return found
            assert time.monotonic() < deadline, f"{what}; the page shows: {self.text()[:2000]}"
            time.sleep(0.1)

    def element(self, css: str, containing: str = "") -> WebElement:
        """The first shown element of a CSS selector with a text in it."""

        def find() -> WebElement | None:
            found = self.driver.find_elements(By.CSS_SELECTOR, css)
            return next((each for each in found if each.is_displayed() and containing in each.text), None)

        element: WebElement = self.wait(find, f"no {css} with the text {containing!r}")
        return element

    def click(self, css: str, containing: str = "") -> None:
        def clicked() -> bool:
            self.element(css, containing).click()
            return True

        self.wait(clicked, f"{css} with the text {containing!r} cannot be clicked")

    def type(self, css: str, text: str) -> None:
        field = self.element(css)
        field.clear()
        field.send_keys(text)

    def text(self) -> str:
        """All text that the page shows."""
        return str(self.driver.find_element(By.TAG_NAME, "body").text)

    def shows(self, *texts: str) -> None:
        for text in texts:
            self.wait(lambda text=text: text in self.text(), f"the page never showed {text!r}")  # type: ignore[misc]  # bound now

    @contextmanager
    def inside(self, css: str = "iframe") -> Iterator[None]:
        """Work in an embedded page."""
        self.driver.switch_to.frame(self.element(css))
        try:
            yield
        finally:
            self.driver.switch_to.default_content()

    def picture(self, file: Path) -> None:
        """The whole page, however long, as a PNG."""
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        self.driver.set_window_size(1600, max(1200, min(int(height) + 150, 6000)))
        self.driver.save_screenshot(str(file))


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with an empty profile, ended with the block."""
    with tempfile.TemporaryDirectory(prefix="dpone-chromium-") as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
            options.add_argument(argument)
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=str(DRIVER)))
        try:
            driver.set_page_load_timeout(SECONDS)
            yield Browser(driver)
        finally:
            driver.quit()

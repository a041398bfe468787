"""A Chromium that shows the web page: for its test, and for the pictures of the documents."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

WITHIN_S = 20.0


@contextmanager
def a_browser() -> Iterator[Any]:
    """A browser without a window; skips the test, with a reason, where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: make setup")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs a browser: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    arguments = ["--headless=new", "--disable-gpu", "--window-size=1280,860", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update"]  # fmt: skip
    if os.geteuid() == 0:
        # Its sandbox is not for root.
        arguments.append("--no-sandbox")
    for each in arguments:
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        started.set_script_timeout(WITHIN_S)
        yield Page(started)
    finally:
        started.quit()


class Page:
    """The page, as a person uses it: by what is written on buttons, links and fields."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, port: int, user: str = "guest", password: str = "guest") -> None:
        """Opens the page and logs in."""
        self.driver.get(f"http://127.0.0.1:{port}/")
        # Whoever was here before is not any more.
        self.driver.execute_script("sessionStorage.clear(); location.hash = ''")
        self.driver.refresh()
        self.wait(lambda: self.find("form.login"))
        self.log_in(user, password)

    def log_in(self, user: str, password: str) -> None:
        """Fills the form of the login."""
        for name, text in (("user", user), ("password", password)):
            field = self.find(f"#{name}")[0]
            field.clear()
            field.send_keys(text)
        self.press("Log in")

    def find(self, selector: str) -> list[Any]:
        """Elements, by a selector."""
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def text(self, selector: str = "main") -> str:
        """What is to be read there."""
        return "\n".join(str(each.text) for each in self.find(selector))

    def wait(self, is_so: Callable[[], Any]) -> Any:
        """Waits until something is so, and returns it."""
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(
            self.driver, WITHIN_S, 0.1, ignored_exceptions=(StaleElementReferenceException,)
        )
        return waiting.until(lambda _: is_so())

    def reads(self, text: str, selector: str = "main") -> None:
        """Waits until a text is to be read."""
        self.wait(lambda: text in self.text(selector))

    def press(self, label: str, within: str = "") -> None:
        """Presses a button, or follows a link, with this label."""

        def pressed() -> bool:
            for each in self.find(f"{within} button, {within} a"):
                if each.text == label and each.is_enabled():
                    each.click()
                    return True
            return False

        self.wait(pressed)

    def go(self, view: str) -> None:
        """Goes to a view by the links above."""
        self.press(view, "nav")
        self.wait(lambda: self.text("main h2") == view)

    def fill(self, **values: str) -> None:
        """Fills fields of the dialog."""
        self.wait(lambda: self.find("dialog[open]"))
        for name, text in values.items():
            field = self.find(f"dialog [name={name}]")[0]
            if field.tag_name == "select":
                continue
            field.clear()
            field.send_keys(text)

    def submit(self) -> None:
        """Presses the last button of the dialog, and waits until it is gone."""
        self.find("dialog button[type=submit]")[0].click()
        self.wait(lambda: not self.find("dialog"))

    def complaints(self) -> list[str]:
        """What the browser complained of, but for answers that refuse something."""
        said = [str(each["message"]) for each in self.driver.get_log("browser")]
        return [each for each in said if "Failed to load resource" not in each]

"""A real Chromium for tests of the page: started once, driven by selenium, absent where there is none."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

DEMANDED = "ATTN_TESTS_NEED_CHROMIUM"  # where set, tests without a browser fail and aren't skipped
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
_PATIENCE = 30.0  # seconds, on a busy machine


class Browser:
    """A Chromium with one window."""

    def __init__(self) -> None:
        chromium, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
        if chromium is None or driver is None:
            raise FileNotFoundError("no chromium and chromedriver here: apt-get install chromium chromium-driver")
        options = Options()
        options.binary_location = chromium
        for flag in _FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(driver))

    def open(self, page: bytes | Path, folder: Path | None = None, address: str = "") -> None:
        """Show a page, given as a file or as bytes that are written to `folder`, once it is ready."""
        if isinstance(page, bytes):
            assert folder is not None
            (folder / "page.html").write_bytes(page)
            page = folder / "page.html"
        self.driver.get("about:blank")
        self.log()
        self.driver.get(page.as_uri() + address)
        self.until("document.documentElement.dataset.ready === 'yes'")

    def log(self) -> list[str]:
        return [f"{line['level']}: {line['message']}" for line in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        messages = (json.loads(line["message"])["message"] for line in self.driver.get_log("performance"))
        sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
        return [params["request"]["url"] for params in sent]

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return {script}", *arguments)

    def until(self, condition: str) -> None:
        WebDriverWait(self.driver, _PATIENCE, 0.02).until(lambda _: self.run(condition), condition)

    def press(self, *keys: str) -> None:
        """Type keys, one after the other, into what has the focus."""
        action = webdriver.ActionChains(self.driver, duration=0)
        for key in keys:
            action.send_keys(key)
        action.perform()

    def command(self, name: str, **parameters: Any) -> Any:
        """A command of Chromium's own protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def resize(self, width: int, height: int = 900) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def prefer(self, theme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.command("Emulation.setEmulatedMedia", features=[feature])


def started() -> Browser:
    """A browser; the test is skipped with the reason where there is none, and fails where one is demanded."""
    try:
        return Browser()
    except (FileNotFoundError, WebDriverException) as error:
        if os.environ.get(DEMANDED):
            raise
        reason = str(error).splitlines()[0]
        return pytest.skip(f"needs a browser: {reason}")

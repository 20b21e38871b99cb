"""One Chromium for all tests of the page."""

from collections.abc import Iterator

import pytest

from tests.browser import Browser, started


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    browser = started()
    yield browser
    browser.driver.quit()


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser as a test finds it: a light system, a wide window."""
    chromium.resize(1400)
    chromium.prefer("light")
    return chromium

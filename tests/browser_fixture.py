"""The browser as a fixture."""

import pytest

from testbed import browser as testbed_browser


@pytest.fixture(scope="module")
def browser():
    """Chromium; for a module, because its loop would be in the way of tests that run their own."""
    if reason := testbed_browser.missing():
        pytest.fail(reason)
    with testbed_browser.chromium() as running:
        yield running


@pytest.fixture
def open_page(browser):
    """Opens tabs, and checks at the end that nothing went wrong in any."""
    opened = []

    def open_tab(address, **options):
        opened.append(testbed_browser.Watched(browser, address, **options))
        return opened[-1]

    yield open_tab
    for each in opened:
        assert (each.wrong, each.blocked) == ([], [])
        each.close()

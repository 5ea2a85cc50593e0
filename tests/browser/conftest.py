"""A standalone webhook with a page, and a browser."""

import pytest

from tests.browser_fixture import browser, open_page

__all__ = ["browser", "open_page"]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker(pytest.mark.slow)

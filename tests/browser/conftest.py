"""A standalone webhook with a page, and a browser."""

from tests.browser_fixture import browser, open_page

__all__ = ["browser", "open_page"]

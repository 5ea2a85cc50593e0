"""A real browser, headless: Debian's Chromium, driven by Playwright (requirements/browser.txt)."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = "chromium"
INSTALL = ".venv/bin/pip install --require-hashes --no-deps -r requirements/browser.txt"


def missing() -> str | None:
    """Say what lacks for tests in a browser; None where all is there."""
    if shutil.which(CHROMIUM) is None:
        return f"the page is tested in Debian's `{CHROMIUM}`, and there is none on PATH"
    if any(importlib.util.find_spec(name) is None for name in ("playwright", "axe_playwright_python")):
        return f"the browser is driven by Playwright: `make browser` installs it ({INSTALL})"
    return None


@contextmanager
def chromium() -> Iterator[Any]:
    """Run Chromium, and end it with all that it started."""
    # Here and not above: it is installed only for these tests.
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    # As root there is no sandbox; small machines give /dev/shm too little.
    options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which(CHROMIUM), args=options)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A tab, and all that went wrong in it: errors, blocked content, requests to other places."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.wrong: list[str] = []
        self.requests: list[str] = []
        self._context = browser.new_context(**options)
        self.tab = self._context.new_page()
        self.tab.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.tab.on("console", self._said)
        self.tab.on("dialog", lambda dialog: (self.wrong.append("dialog"), dialog.dismiss()))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.add_init_script(
            "window.blocked = [];"
            "addEventListener('securitypolicyviolation', (e) => window.blocked.push(e.violatedDirective))"
        )
        self.tab.goto(address)

    def _said(self, message: Any) -> None:
        # That a server is away is said by the network, and by the page itself.
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            self.wrong.append(f"{message.type}: {message.text}")

    @property
    def blocked(self) -> list[str]:
        """Directives of the Content-Security-Policy that something was blocked by."""
        found: list[str] = self.tab.evaluate("window.blocked")
        return found

    def close(self) -> None:
        """Close the tab."""
        self._context.close()

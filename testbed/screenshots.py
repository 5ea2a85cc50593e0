"""`make screenshots`: the pictures of the docs, made by the product itself: the page, and a terminal.

The page shows the made-up cluster of testbed/page_example.py, in Debian's Chromium. The terminal is the
demo's output; it is drawn as SVG, without fonts from elsewhere.
"""

import os
import re
import subprocess
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from testbed import browser
from testbed.page_example import shown
from testbed.product import COMMAND

DOCS = Path(__file__).parents[1] / "docs" / "images"
TERMINAL = DOCS / "terminal.svg"
WIDE, PHONE = {"width": 1280, "height": 640}, {"width": 390, "height": 700}
PICTURES = {
    "page": ("", {"viewport": WIDE, "color_scheme": "light"}),
    "page-dark": ("?view=pods&sort=use", {"viewport": WIDE, "color_scheme": "dark"}),
    "page-phone": ("?q=queue:nightly", {"viewport": PHONE, "color_scheme": "light"}),
}
"""By name: the rest of the address, and the browser's options."""
COLUMNS = 100


def main() -> None:
    """Make all."""
    if reason := browser.missing():
        raise SystemExit(reason)
    TERMINAL.write_text(terminal())
    with browser.chromium() as chromium, shown("large") as address:
        for name, (query, options) in PICTURES.items():
            photograph(chromium, f"{address}{query}", DOCS / f"{name}.png", **options)


def photograph(chromium, address, file, **options):
    """The page, with one GPU in focus where boxes are shown."""
    context = chromium.new_context(**options)
    tab = context.new_page()
    tab.goto(address)
    tab.wait_for_selector("#state:text-is('live')")
    tab.wait_for_selector("#waiting li")
    if "view=pods" not in address:
        tab.locator(".gpu").nth(17).focus()
    tab.screenshot(path=file)
    context.close()


def terminal():
    """The demo's output as SVG."""
    environment = os.environ | {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    ended = subprocess.run([COMMAND, "demo"], env=environment, capture_output=True, text=True, check=True)
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    # Its port is another one each time, and so is the folder of the checkout.
    said = re.sub(r"localhost:\d+", "localhost:8443", ended.stdout)
    said = said.replace(COMMAND, ".venv/bin/fraction-injector")
    console.print(Text.from_ansi(said))
    drawn = console.export_svg(title="make demo", unique_id="demo")
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


if __name__ == "__main__":
    main()

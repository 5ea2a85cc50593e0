"""`make screenshots`: the pictures of the docs, made by the product itself: the page, and a terminal.

The page is that of a standalone webhook over a made-up cluster, in Debian's Chromium. The terminal is the
demo's output; it is drawn as SVG, without fonts from elsewhere.
"""

import os
import random
import re
import subprocess
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from testbed import browser
from testbed.product import COMMAND
from testbed.standalone_page import Standalone, node, pod

DOCS = Path(__file__).parents[1] / "docs" / "images"
PAGE, TERMINAL = DOCS / "page.png", DOCS / "terminal.svg"
COLUMNS = 100
QUEUES = ("half-gpu", "nightly", "interactive", "research")
NODES = tuple(f"{kind}-{number:02}" for kind in ("a100", "h100") for number in range(14))


def main() -> None:
    """Make both."""
    if reason := browser.missing():
        raise SystemExit(reason)
    TERMINAL.write_text(terminal())
    with tempfile.TemporaryDirectory() as folder, browser.chromium() as chromium:
        webhook = Standalone(Path(folder), *[node(name) for name in NODES], *_pods())
        try:
            photograph(chromium, f"{webhook.page}?colour=queue")
        finally:
            webhook.stop()


def photograph(chromium, address):
    """The page, with one GPU in focus."""
    tab = chromium.new_page(viewport={"width": 1280, "height": 640}, color_scheme="light")
    tab.goto(address)
    tab.wait_for_selector("#state:text-is('live')")
    tab.wait_for_selector("#waiting li")
    tab.locator(".gpu").nth(17).focus()
    tab.screenshot(path=PAGE)


def terminal():
    """The demo's output as SVG."""
    environment = os.environ | {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    shown = subprocess.run(
        [COMMAND, "demo"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    # Its port is another one each time.
    console.print(Text.from_ansi(re.sub(r"localhost:\d+", "localhost:8443", shown)))
    drawn = console.export_svg(title="make demo", unique_id="demo")
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


def _pods():
    chance = random.Random(4)  # noqa: S311 - the same picture each time
    for name in NODES:
        for index in range(8):
            free = 8
            while free > 0 and chance.random() < 0.75:
                slices = min(free, chance.choice((1, 2, 4, 4, 8)))
                queue = chance.choice(QUEUES)
                number = f"{chance.randrange(16**6):06x}"
                yield pod(
                    f"clearml-id-{number}", name, index=index, slices=slices, queue=queue, namespace="clearml"
                )
                free -= slices
    yield pod("clearml-id-7d1e4b", slices=8, index=3, queue="research", namespace="clearml")


if __name__ == "__main__":
    main()

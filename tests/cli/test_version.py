"""One version, the same everywhere."""

import re
import tomllib

import yaml

from cli import VERSION
from tests.cli.running import CHECKOUT, run


def test_the_command_the_package_the_chart_and_the_image_say_the_same():
    printed = run("--version")
    assert (printed.returncode, printed.stdout) == (0, f"fraction-injector {VERSION}\n")
    assert tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"] == VERSION
    chart = yaml.safe_load((CHECKOUT / "charts" / "fraction-injector" / "Chart.yaml").read_text())
    assert chart["appVersion"] == VERSION
    assert re.search(r"^ARG VERSION=(.*)$", (CHECKOUT / "Dockerfile").read_text(), re.MULTILINE)[1] == VERSION


def test_the_chart_tells_what_a_catalogue_shows_and_no_address_that_the_package_does_not():
    chart = yaml.safe_load((CHECKOUT / "charts" / "fraction-injector" / "Chart.yaml").read_text())
    assert chart["icon"].startswith("data:image/svg+xml;base64,")
    assert {"gpu", "fraction", "kubernetes"} <= set(chart["keywords"])
    urls = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"].get("urls", {})
    assert chart.get("home") == urls.get("Homepage")
    assert chart.get("sources", []) == [url for name, url in urls.items() if name == "Repository"]

"""The end of a run: which tests were skipped for want of a program, and the one command that installs it.

Every other reason for a skip is printed once, with the number of its tests.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest
from _pytest.terminal import TerminalReporter

GO_ADVICE = "Go 1.26 or newer (https://go.dev/dl)"


class Program(NamedTuple):
    """Something that tests need, as the reasons of their skips name it."""

    name: str
    debian: str | None = None
    """Debian's package that has it, with those that it also needs."""
    command: str | None = None
    """Installs it, where Debian does not."""


PROGRAMS = (
    Program("chromium", "chromium"),
    Program("promtool", "prometheus"),
    Program("buildah", "buildah"),
    Program("mmdebstrap", "mmdebstrap"),
    Program("podman", "podman runc busybox-static"),
    Program("openssl", "openssl"),
    Program("unshare", "util-linux"),
    Program("nsenter", "util-linux"),
    Program("ip", "iproute2"),
    Program("gcc", "gcc libc6-dev"),
    Program("pkg-config", "pkg-config"),
    Program("Playwright", command="make browser"),
    Program("package clearml", command="make clearml"),
    Program("Go"),
)


def summary(reasons: Iterable[str]) -> Iterator[str]:
    """Yield the lines that say what was skipped, from the reason of each skipped test."""
    wanted: Counter[Program] = Counter()
    other: Counter[str] = Counter()
    count = 0
    for reason in reasons:
        named = [each for each in PROGRAMS if re.search(rf"\b{each.name}\b", reason)]
        wanted.update(named)
        other.update([] if named else [reason])
        count += bool(named)
    for reason, skipped in sorted(other.items()):
        yield f"skipped {skipped}: {reason}"
    if wanted:
        names = ", ".join(f"{each.name} ({wanted[each]})" for each in PROGRAMS if each in wanted)
        yield f"skipped {count} for want of {names}. To run them too: {_cure(wanted)}"


def _cure(wanted: Iterable[Program]) -> str:
    missing = [each for each in PROGRAMS if each in set(wanted)]
    packages = dict.fromkeys(each.debian for each in missing if each.debian is not None)
    commands = [f"apt-get install --no-install-recommends {' '.join(packages)}"] if packages else []
    # Whoever lacks the browser has not met the next reason yet: what drives it.
    needs_browser = any(each.name in ("chromium", "Playwright") for each in missing)
    commands += ["make browser"] if needs_browser else []
    commands += ["make clearml"] if any(each.command == "make clearml" for each in missing) else []
    texts = [" && ".join(commands)] if commands else []
    return "; ".join([*texts, *([f"install {GO_ADVICE}"] if Program("Go") in missing else [])])


def reason_of(report: pytest.TestReport) -> str:
    """Return why a test was skipped, without pytest's own words."""
    place = report.longrepr
    text = place[2] if isinstance(place, tuple) else str(place)
    return text.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the lines."""
    for line in summary(map(reason_of, terminalreporter.stats.get("skipped", []))):
        terminalreporter.write_line(line)

"""The tiers of tests, and what every run of them prints.

`make test` takes all folders of `tests/` but those of `FOLDERS`: it needs Python and make alone. A folder of
another tier is collected only where it is named. Files come in a random order, that of SHUFFLE=SEED if the
environment says so; the tests of a file stay together, and so do the files of folders in `TOGETHER`.
"""

from __future__ import annotations

import os
import random
import secrets
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import given, settings
from hypothesis.strategies import text
from xdist.scheduler.loadscope import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "cluster": ("tests/control_plane",),
    "nodes": ("tests/real_nodes", "tests/image", "tests/browser", "tests/programs"),
    "long": ("tests/long",),
}
"""Of the tiers beside `make test`."""
TOGETHER = {
    *(f"tests/control_plane/{name}" for name in ("admission_policies", "controller_writes", "kueue")),
    *("tests/real_nodes/installed", "tests/image"),
}
"""Folders whose files share what takes long to make, and so one worker; subfolders apart."""
SEED = "SHUFFLE"
SLOWEST = 20
CPU = "cpu"
_begun = pytest.StashKey[float]()
_taken: dict[str, float] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Choose the order; workers inherit it."""
    os.environ.setdefault(SEED, str(secrets.randbelow(10_000)))


def pytest_report_header() -> str:
    """Name the order, so that it can be repeated."""
    return f"files in the order of {SEED}={os.environ[SEED]}"


def tier_of(path: Path) -> str | None:
    """Return the tier that a file or folder belongs to; None for `make test`."""
    places = [path, *path.parents]
    return next(
        (tier for tier, folders in FOLDERS.items() if any(ROOT / each in places for each in folders)), None
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out folders of other tiers unless they, or something in them, are named."""
    named = (Path(config.invocation_params.dir, arg.partition("::")[0]).resolve() for arg in config.args)
    tier = tier_of(collection_path)
    return True if tier is not None and tier not in {tier_of(each) for each in named} else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle files, and what stays together as a whole; this comes first, as it takes longest."""
    together: dict[str, list[pytest.Item]] = {}
    for item in items:
        together.setdefault(scope(item.nodeid), []).append(item)
    scopes = sorted(together)
    random.Random(os.environ[SEED]).shuffle(scopes)  # noqa: S311 an order, no secret
    scopes.sort(key=lambda each: each not in TOGETHER)
    items[:] = [item for each in scopes for item in together[each]]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let hypothesis read modules and Unicode once: else the first property tests of a worker would."""
    if any(item.get_closest_marker("hypothesis") for item in session.items):
        settings(max_examples=1, database=None)(given(text())(lambda _: None))()


def scope(nodeid: str) -> str:
    """Return what one worker runs with a test: its file, or the files of its folder."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if folder in TOGETHER else file


class ByScope(LoadScopeScheduling):
    """Gives each scope to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByScope | None:
    """Share out by this rule where files are to stay together."""
    return ByScope(config, log) if config.getoption("dist") == "loadfile" else None


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_begun] = cpu_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Tell what a test took, its fixtures included."""
    report = yield
    if call.when == "teardown":
        report.user_properties.append((CPU, cpu_seconds() - item.stash[_begun]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what a worker tells."""
    if report.when == "teardown":
        _taken[report.nodeid] = dict(report.user_properties)[CPU]


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the slowest tests, by CPU time: that of the clock says what else the machine did."""
    terminalreporter.section(f"{SLOWEST} slowest tests, seconds of CPU")
    for nodeid, seconds in sorted(_taken.items(), key=lambda each: -each[1])[:SLOWEST]:
        terminalreporter.write_line(f"{seconds:6.1f} {nodeid}")

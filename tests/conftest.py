"""What all tests share: how hypothesis runs, and on which Kubernetes."""

import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from service import log
from testbed.kubernetes_version import UNDER_TEST
from tests.effort import CHOSEN, examples

pytest_plugins = ["tests.tiers"]

# A timing is never an assertion, and the machine may be busy.
# Without a database a run depends on no other, and the checkout may be read-only.
settings.register_profile(
    "house",
    max_examples=examples(100),
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Run a test that is a coroutine in an event loop of its own, which `LOOP` of its module makes."""
    loop = getattr(request.module, "LOOP", None)
    return "asyncio", {} if loop is None else {"loop_factory": loop}


Say = Callable[[str], None]


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Say:
    """Write a line to the terminal, also from a worker."""
    capture = pytestconfig.pluginmanager.get_plugin("capturemanager")

    def line(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", file=sys.__stderr__, flush=True)

    return line


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Take back what a command that a test ran in this process did to its logging."""
    root, before = logging.getLogger(), (log._output.levels, log._output.render)
    level = root.level
    yield
    root.handlers[:] = [handler for handler in root.handlers if not isinstance(handler, log._LibraryLogs)]
    root.setLevel(level)
    log._output.levels, log._output.render = before


def pytest_report_header() -> str:
    return f"control plane: Kubernetes {UNDER_TEST.version}" + (
        f"; tried in full: {CHOSEN}" if CHOSEN else ""
    )

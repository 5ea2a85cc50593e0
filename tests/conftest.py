"""What all tests share: how hypothesis runs, and on which Kubernetes."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from cli.explainer import Explainer, Explanation
from service import log
from testbed.kubernetes_version import UNDER_TEST
from tests.effort import CHOSEN
from tests.webhook.support.reviewed_again import check_again, is_injected_pod

pytest_plugins = ["tests.distribution", "tests.skipped"]

# A timing is never an assertion, and the machine may be busy.
settings.register_profile(
    "house", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")

# Tests of the webhook fork workers in processes in which tests of the agent have used gRPC. Its handlers of
# forks crash such a child; the webhook itself does not load gRPC.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"

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


@pytest.fixture(autouse=True)
def _explained_pods_are_reviewed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever `explain` admits in this process goes through the reviews that a real API server adds."""
    plain = Explainer._review

    def review(self: Explainer, asked: dict[str, Any]) -> Explanation:
        explained = plain(self, asked)
        if is_injected_pod(explained.outcome):
            policies = self._reviewer.dispatcher._resolver._policies()
            check_again(policies, self._ledger, asked, explained.pod, explained.outcome)
        return explained

    monkeypatch.setattr(Explainer, "_review", review)


def pytest_report_header() -> str:
    full = f"; tried in full: {CHOSEN}" if CHOSEN else ""
    return f"control plane: Kubernetes {UNDER_TEST.version}{full}"

"""The image and the logs of real nodes, for what the agent goes through there."""

import pytest

from tests.real_nodes.conftest import image, possible, pytest_runtest_makereport  # noqa: F401 fixtures, hooks


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/long/agent_nodes/" in item.nodeid:
            # Every wait of the fixtures has its own end.
            item.add_marker(pytest.mark.timeout(900, func_only=True))

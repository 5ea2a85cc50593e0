"""The control plane of the cluster tier, for what takes minutes on it."""

import pytest

from tests.control_plane.conftest import (  # noqa: F401 fixtures
    built,
    control_plane,
    helm,
    namespace,
    nodes,
    own_namespace,
    pytest_runtest_makereport,
    serve,
    setup,
    start,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/long/control_plane/" in item.nodeid:
            # Every wait has its own end.
            item.add_marker(pytest.mark.timeout(2400, func_only=True))

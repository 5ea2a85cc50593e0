"""The image and the logs of real nodes, for what the agent goes through there."""

from tests.real_nodes.conftest import (  # noqa: F401 fixtures, hooks
    image,
    possible,
    pytest_collection_modifyitems,
    pytest_runtest_makereport,
)

"""The image and the logs of real nodes, for layouts and features that take turns."""

from tests.real_nodes.conftest import (  # noqa: F401 fixtures, hooks
    image,
    possible,
    pytest_collection_modifyitems,
    pytest_runtest_makereport,
)

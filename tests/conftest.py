"""What all tests share: how hypothesis runs, which Kubernetes, and the image, built once a session."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from testbed import image
from testbed.kubernetes_version import UNDER_TEST

# A timing is never an assertion, and the machine may be busy.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")


def pytest_report_header() -> str:
    return f"control plane: Kubernetes {UNDER_TEST.version}"


@pytest.fixture(scope="session")
def built_image() -> Iterator[image.Buildah]:
    """Storage that holds the image."""
    with image.built() as buildah:
        yield buildah

"""What all tests share: how hypothesis runs, and which Kubernetes."""

from hypothesis import settings

from testbed.kubernetes_version import UNDER_TEST

# A timing is never an assertion, and the machine may be busy.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")


def pytest_report_header() -> str:
    return f"control plane: Kubernetes {UNDER_TEST.version}"

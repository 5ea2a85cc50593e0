"""What all tests share: how hypothesis runs, which Kubernetes, how workers share them out, and the image."""

import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from testbed import image
from testbed.kubernetes_version import UNDER_TEST

# A timing is never an assertion, and the machine may be busy.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")


NODES = ("tests/cluster/", "tests/image/")
"""Their tests share the image and real nodes, which are made once: one worker takes them all."""

Say = Callable[[str], None]


class ByFile(LoadFileScheduling):
    """Shares tests out by file, whose fixtures are made once; those of real nodes as one piece."""

    def _split_scope(self, nodeid: str) -> str:
        return "nodes" if nodeid.startswith(NODES) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest piece where workers share the tests."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.nodeid.startswith(NODES), reverse=True)


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Say:
    """Write a line to the terminal, also from a worker, which has none of its own."""
    terminal = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    capture = pytestconfig.pluginmanager.get_plugin("capturemanager")

    def line(text: str) -> None:
        with capture.global_and_fixture_disabled():
            if terminal is None:
                print(text, file=sys.__stderr__, flush=True)
            else:
                terminal.ensure_newline()
                terminal.write_line(text)

    return line


def pytest_report_header() -> str:
    return f"control plane: Kubernetes {UNDER_TEST.version}"


@pytest.fixture(scope="session")
def built_image() -> Iterator[image.Buildah]:
    """Storage that holds the image."""
    with image.built() as buildah:
        yield buildah

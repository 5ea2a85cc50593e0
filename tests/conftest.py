"""What all tests share: how hypothesis runs, which Kubernetes, how workers share them out, and the image."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from testbed import image
from testbed.kubernetes_version import UNDER_TEST

# A timing is never an assertion, and the machine may be busy.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")


TESTS = Path(__file__).parent
NODES = (TESTS / "cluster", TESTS / "image")
"""Their tests share the image and real nodes, which are made once: one worker takes them all."""

Say = Callable[[str], None]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Share tests out to workers by file, whose fixtures are made once; the longest piece first."""
    for item in items:
        piece = "nodes" if _on_nodes(item) else item.path.relative_to(TESTS).as_posix()
        item.add_marker(pytest.mark.xdist_group(piece))
    if hasattr(config, "workerinput"):
        items.sort(key=_on_nodes, reverse=True)


def _on_nodes(item: pytest.Item) -> bool:
    return any(folder in item.path.parents for folder in NODES)


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

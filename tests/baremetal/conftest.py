"""Fixtures of a runner's tests."""

from contextlib import closing

import pytest

from baremetal.store import TaskStore


@pytest.fixture
def store(tmp_path):
    with closing(TaskStore(tmp_path)) as opened:
        yield opened

"""Load on a real server over TLS."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import bodies
from bench.client import closed_loop, press, response
from bench.processes import Server, serving, webhook


@pytest.fixture(scope="module")
def null() -> Iterator[Server]:
    with serving("NULL") as server:
        yield server


def test_each_connection_sends_one_review_at_least(null: Server):
    assert press(null.port, bodies.small(2), connections=2, seconds=0.0) == 2


def test_a_response_is_read(null: Server):
    found = response(null.port, bodies.small(1)[0])
    assert found == {"uid": "00000000-0000-4000-8000-000000000000", "allowed": True}


def test_an_answer_other_than_200_is_a_failure(tmp_path: Path):
    with webhook(tmp_path) as ours:
        answers = asyncio.run(closed_loop(ours.port, [b"no review"], connections=1, seconds=0.05))
    assert answers.good == 0
    assert set(answers.failures) == {"ValueError: HTTP/1.1 400 Bad Request"}


def test_cpu_and_memory_of_a_server_are_read(null: Server):
    assert null.cpu_seconds > 0
    assert null.rss_mb > 1

"""Names of cards that cannot be read cost nothing that runs beside them."""

import asyncio
import errno
import os

import pytest

from agent.card_names import CardNames
from agent.cdi import CdiError
from agent.gpu import Gpu
from agent.parallel_start import begin
from agent.policy import PolicyUnusableError, read_policy
from tests.agent.support.node import node_folder

CARD = Gpu(0, "GPU-0", "NVIDIA A100", 40960)


class EnoughError(Exception):
    """Ends what would go on."""


def no_process(*_):
    """A node that has no process to spare."""
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_whoever_follows_names_goes_on_where_no_process_can_start(tmp_path, monkeypatch):
    monkeypatch.setattr("agent.card_names.POLL_SECONDS", 0)

    async def follow():
        names, turns = CardNames([str(tmp_path)]), 0

        def turned():
            nonlocal turns
            turns += 1
            if turns == 3:
                raise EnoughError

        with pytest.raises(EnoughError):
            await names.follow([CARD], turned)

    monkeypatch.setattr("agent.card_names.Child", no_process)
    asyncio.run(follow())


def test_an_agent_starts_where_no_process_can_read_names_yet(monkeypatch):
    monkeypatch.setattr("agent.card_names.Child", no_process)
    with node_folder() as node:
        begun = begin(node.options)
        with pytest.raises(PolicyUnusableError):
            asyncio.run(read_policy(begun.policy))
        with pytest.raises(CdiError, match="cannot be read"):
            asyncio.run(begun.card_names.read([CARD]))

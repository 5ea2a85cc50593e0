"""Prepares a node for shares: what is needed before any GPU is offered, by a device plugin or by DRA."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import TypeVar

from agent.card_names import CardNames
from agent.card_specification import CardSpecification
from agent.cdi import CdiError
from agent.driver_limits import DriverLimits
from agent.limiter_library import LibraryError, LimiterLibrary
from agent.node_lock import NodeLock
from agent.parts import Agent
from agent.private_folder import UntrustedError
from agent.recurring_error import RecurringError
from agent.runtime import cdi_problem
from agent.settings import NO_LIMITER
from agent.shares import RefusedError
from agent.state import HELD
from service.background import beat
from service.log import get_logger

RETRY_SECONDS = 1.0
POLL_SECONDS = 5.0
"""Between two looks at the files of CDI devices."""
_NO_HOOK = "the cards' CDI devices lack NVIDIA's hook for it: container toolkit 1.20.1 or newer has it"
Finished = TypeVar("Finished")


class NotPreparedError(Exception):
    """Something is missing without which no share can be allocated; the text says what, and what to do."""


class Preparation:
    """The node's lock, the cards' CDI devices, the limiter's library, and limits by the driver."""

    def __init__(self, agent: Agent) -> None:
        options, state = agent.options, agent.state
        self.names = CardNames(options.cdi_dirs)
        self._driver_lacks = why_no_driver_limits(agent)
        self.driver: DriverLimits | None = None
        """None where the driver does not limit shares."""
        if self._driver_lacks is None:
            self.driver = DriverLimits(options.state_dir, lambda: self.names.limit_hooks)
        self.cards: CardSpecification | None = None
        """None where somebody else writes the cards' CDI devices."""
        if options.nvidia_ctk is not None and state.gpus:
            self.cards = CardSpecification(options.nvidia_ctk, options)
        self._options = options
        self._state = state
        self._lock = NodeLock(agent.state_dir)
        source = Path(options.library) if options.library is not None else None
        self._library = LimiterLibrary(agent.policy.limiter, agent.state_dir, source)
        self._checking = asyncio.Lock()
        """Two checks at once would restore the same file."""
        self._log = get_logger("device plugins")

    def release(self) -> None:
        """Let another agent run on the node."""
        self._lock.release()

    def are_limited_by_driver(self) -> bool:
        """Return whether the driver limits containers that start now, on every card."""
        cards = {gpu.uuid for gpu in self._state.gpus}
        return self.driver is not None and cards <= self.names.limit_hooks.keys()

    def show_driver_limits(self) -> None:
        """Report whether the driver limits containers that start now, unless nobody wants that."""
        options = self._options
        if options.driver_limits != "false":
            why_not = options.without_driver(self._driver_lacks or _NO_HOOK)
            self._state.driver_limits = HELD if self.are_limited_by_driver() else why_not

    async def check_files(self) -> None:
        """Return once the files that limit containers are as this agent knows them.

        It is called before a share is allocated, and again before each start of its container.

        Raises:
            RefusedError: one is not, and cannot be restored.
        """
        try:
            async with self._checking:
                await asyncio.to_thread(self._library.check)
                if self.driver is not None:
                    await asyncio.to_thread(self.driver.put_back)
        except LibraryError as error:
            raise RefusedError(str(error)) from error
        except OSError as error:
            raise RefusedError(f"{error.filename} cannot be written: {error.strerror}") from error

    async def until_done(self, offered: Collection[str], finish: Callable[[], Finished]) -> Finished:
        """Prepare, and then finish, when nothing is missing any more; return what `finish` returns.

        Args:
            offered: names that are not registered meanwhile.
            finish: raises NotPreparedError or CdiError if it cannot.
        """
        lacking = NotPreparedError, CdiError, LibraryError, UntrustedError
        failed = RecurringError(self._log.error, "no GPU is offered yet", *lacking)
        while True:
            beat()
            with failed:
                await self._prepare()
                finished = finish()
                self.show_driver_limits()
                return finished
            for name in offered:
                self._state.set_registration(name, failed.text)
            await asyncio.sleep(RETRY_SECONDS)

    async def follow(self, write: Callable[[], Awaitable[None]]) -> None:
        """Keep the cards' CDI devices as their files are, such as after an upgrade, until cancelled.

        Args:
            write: writes ours again, when cards have other names or hooks; raises CdiError if it cannot.
        """
        warn, gpus = self._log.warning, self._state.gpus
        not_made = RecurringError(warn, "the cards' CDI devices are as they were", CdiError)
        not_read = RecurringError(warn, "cards go by the CDI names that they had", CdiError)
        not_written = RecurringError(warn, "our CDI devices are not updated", CdiError)
        written = dict(self.names.names), self.names.limit_hooks
        while True:
            await asyncio.sleep(POLL_SECONDS)
            beat()
            if self.cards is not None and not await asyncio.to_thread(self.cards.is_current):
                with not_made:
                    await asyncio.to_thread(self.cards.make, gpus)
                    self._log.info("the driver's files changed, and the cards' CDI devices with them")
            with not_read:
                await self.names.read(gpus)
            known = dict(self.names.names), self.names.limit_hooks
            if known != written:
                with not_written:
                    await write()
                    written = known
                    self._log.info("cards go by other CDI names", names=self.names.names)
                    self.show_driver_limits()

    async def _prepare(self) -> None:
        if not self._lock.take():
            raise NotPreparedError(
                f"another agent runs on this node and holds {self._lock.path}: end one of the two"
            )
        await self._name_cards()
        if (problem := cdi_problem(self._options)) is not None:
            raise NotPreparedError(problem)
        await asyncio.to_thread(self._library.prepare)

    async def _name_cards(self) -> None:
        """Read the cards' CDI devices: ours, written again, or existing ones if that fails."""
        gpus = self._state.gpus
        why_none = ""
        if self.cards is not None:
            try:
                await asyncio.to_thread(self.cards.make, gpus)
            except CdiError as error:
                why_none = f"; {error}"
        try:
            await self.names.read(gpus)
        except CdiError as error:
            raise CdiError(f"{error}{why_none}") from error
        if why_none:
            self._log.warning("the cards' CDI devices cannot be written again", error=why_none.strip("; "))


def why_no_driver_limits(agent: Agent) -> str | None:
    """Return why the driver is not to limit shares on this node; None if it is.

    Whether it does for a card also depends on NVIDIA's hook in the card's CDI device.
    """
    options = agent.options
    if options.driver_limits == "false":
        return "agent.driverLimits is false"
    if agent.driver_lacks is not None:
        return agent.driver_lacks
    if agent.policy.limiter.name == NO_LIMITER:
        return "the driver limits shares only with a policy with a limiter"
    folder = Path(options.node_root) / "usr" / "bin"
    # Hooks run on the node. A link may lead to a path that only the node has.
    lacking = [name for name in ("sh", "sed") if not os.path.lexists(folder / name)]
    if options.driver_limits == "auto" and lacking:
        return f"the node has no /usr/bin/{lacking[0]}, which the hook needs"
    return None

"""Starts processes that read files while the agent loads its own large libraries."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from agent.card_names import CardNames
from agent.cdi import CdiError
from agent.options import AgentOptions
from agent.policy import PolicyReading, begin_reading


@dataclass(frozen=True, slots=True)
class Begun:
    """Readings of files that were started in threads and are still in progress."""

    policy: PolicyReading
    card_names: CardNames


def begin(options: AgentOptions) -> Begun:
    """Start to read what `run_agent` needs."""
    names = CardNames(options.cdi_dirs)
    if options.strategy == "cdi":
        with contextlib.suppress(CdiError):  # `read` tries again, and reports the error
            names.begin()
    return Begun(begin_reading(options), names)

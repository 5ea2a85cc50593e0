"""The parts of a running agent, which most of what it does needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from agent.kubelet import Kubelet
from agent.metrics import AgentMetrics
from agent.nvml import Nvml
from agent.options import AgentOptions
from agent.settings import AgentPolicy
from agent.state import AgentState


@dataclass(frozen=True, slots=True)
class Agent:
    """The parts of a running agent."""

    options: AgentOptions
    policy: AgentPolicy
    state: AgentState
    source: Nvml
    kubelet: Kubelet
    metrics: AgentMetrics
    registry: CollectorRegistry
    driver_lacks: str | None
    """Why the driver cannot limit the GPU memory of containers; None if it can."""

    @property
    def state_dir(self) -> Path:
        """The agent's folder, at the same path on the node."""
        return Path(self.options.state_dir)

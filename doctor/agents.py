"""Checks of the agents: their pods, what they report, and the cards. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from controller.watch.agent_readiness import why_not_ready
from controller.watch.resources import SeenNode
from doctor.finding import Diagnosis
from doctor.reasons import advice_for, reasons_of
from doctor.seen import AgentPod, AgentSays, AgentSet, Seen, Waiting, known
from kube.names import (
    AGENT_TAINT,
    DEPLOY_CLIENT_LABEL,
    DEPLOY_DRIVER_LABEL,
    DEPLOY_PLUGIN_LABEL,
    GPU_COUNT_LABEL,
    GPU_PRESENT_LABEL,
    label_number,
)

MAX_CARDS = 64
"""That a GpuNode lists."""
_LOST_ADVICE = "run nvidia-smi on the node, repair or reset the GPU, then delete the agent's pod there"


def agent_set(seen: Seen) -> Iterator[Diagnosis]:
    """The agent's DaemonSet creates its pods."""
    found = seen.agents.value
    if found is None:
        yield Diagnosis("ok", "no agent is installed: containers are limited from admission")
        return
    if not found.desired:
        yield Diagnosis("warning", f"DaemonSet {seen.name}-agent matches no node", _label_advice(found))
    missing = found.desired - found.current
    if missing > 0:
        why = _event(seen, "DaemonSet", f"{seen.name}-agent") or "there is no Event with the reason"
        what = f"{missing} pods of DaemonSet {seen.name}-agent are not created: {why}"
        yield Diagnosis("failed", what, advice_for(why))


def agent_pods(seen: Seen) -> Iterator[Diagnosis]:
    """Every pod of the agent runs; otherwise, what its containers wait for."""
    for pod in seen.agent_pods.value:
        if pod.is_ready or (seen.node is not None and pod.node != seen.node):
            continue
        if not pod.waiting:
            # It runs: its problem is in its GpuNode.
            if seen.reports.value.get(pod.node) is None:
                what = f"the agent runs, is not ready and has reported nothing{_logged(seen, pod.node)}"
                yield Diagnosis("failed", what, advice_for(what), pod.node or None)
            continue
        for each in pod.waiting:
            why = _why(seen, pod, each)
            yield Diagnosis("failed", f"the agent's pod waits: {why}", advice_for(why), pod.node or None)


def _why(seen: Seen, pod: AgentPod, waiting: Waiting) -> str:
    ended = f" after exit code {waiting.exit_code}" if waiting.exit_code is not None else ""
    message = waiting.message or _event(seen, "Pod", pod.name)
    return f"{waiting.container}: {waiting.reason}{ended}{f': {message}' if message else ''}"


def _event(seen: Seen, kind: str, name: str) -> str:
    return known(seen.events, {}).get((kind, name), "")


def nodes(seen: Seen) -> Iterator[Diagnosis]:
    """Some node has GPUs."""
    if not gpu_nodes(seen):
        what = "no node offers GPUs" if seen.node is None else f"node {seen.node} offers no GPU"
        agents = known(seen.agents, None)
        if agents is None:
            advice = "install driver, GPU feature discovery and device plugin, or the agent (agent.enabled)"
        else:
            advice = "see why its agents serve none, below" if agents.desired else _label_advice(agents)
        yield Diagnosis("warning", what, advice)


def _label_advice(agents: AgentSet) -> str:
    """Return how nodes opt in; GPU feature discovery, which may set the label, is not required."""
    wanted = " ".join(f"{key}={value}" for key, value in agents.pods.node_selector.items())
    return f"label the GPU nodes: kubectl label node NODE {wanted}" if wanted else "see agent.affinity"


def shape(seen: Seen) -> Iterator[Diagnosis]:
    """Which of its two shapes the GPU operator has on each node; in GPUCluster its DRA driver keeps away."""
    ours = {node.fact.name for node in with_agent(seen)}
    for node in gpu_nodes(seen):
        name, labels = node.fact.name, node.fact.labels
        if DEPLOY_DRIVER_LABEL in labels:
            what = "NVIDIA's GPU operator manages it by a GPUCluster"
            if name in ours and labels[DEPLOY_DRIVER_LABEL] == "true":
                what += ", whose DRA driver offers the same cards as our agent"
                advice = f"kubectl label node {name} {DEPLOY_DRIVER_LABEL}=false --overwrite"
                yield Diagnosis("failed", what, advice, name)
            else:
                yield Diagnosis("ok", what, node=name)
        elif DEPLOY_PLUGIN_LABEL in labels:
            yield Diagnosis("ok", "NVIDIA's GPU operator manages it by a ClusterPolicy", node=name)


def usable(seen: Seen) -> Iterator[Diagnosis]:
    """GPU nodes take pods."""
    for node in gpu_nodes(seen):
        if not node.fact.usable:
            what = "it is not ready, cordoned or being removed"
            yield Diagnosis("warning", what, "kubectl describe node says which", node.fact.name)


def paused(seen: Seen) -> Iterator[Diagnosis]:
    """The GPU operator lets clients of the driver run."""
    for node in gpu_nodes(seen):
        state = _client_label(node)
        if state != "true":
            what = f"the agent is paused: label {DEPLOY_CLIENT_LABEL} is {state}"
            advice = "wait for the GPU operator; see the log of its driver manager or MIG manager"
            yield Diagnosis("warning", what, advice, node.fact.name)


def serving(seen: Seen) -> Iterator[Diagnosis]:
    """Every agent is registered with its kubelet, in this boot."""
    reports = seen.reports.value
    for node in with_agent(seen):
        if _client_label(node) != "true":
            continue  # its agent must be paused
        says = reports.get(node.fact.name)
        why = why_not_ready(says.report(node.fact.name) if says is not None else None, node)
        if why is None:
            continue
        if says is not None and says.missing and not says.registered:
            yield from _missing(says, node)
        else:
            logged = _logged(seen, node.fact.name)
            advice = advice_for(logged) if logged else "see the agent's pod on the node"
            yield Diagnosis("failed", f"{why}{logged}", advice, node.fact.name)


def _logged(seen: Seen, node: str) -> str:
    """Return what the agent of a node complains of, to follow a fault; empty if that is not known."""
    logged = known(seen.agent_logs, {}).get(node)
    return f"; its agent logs: {logged}" if logged else ""


def _client_label(node: SeenNode) -> str:
    return node.fact.labels.get(DEPLOY_CLIENT_LABEL, "true")


def _missing(says: AgentSays, node: SeenNode) -> Iterator[Diagnosis]:
    for resources, reason in reasons_of(says.missing):
        what = f"the agent is not registered: {reason}{f' ({resources})' if resources else ''}"
        yield Diagnosis("failed", what, advice_for(reason), node.fact.name)


def taints(seen: Seen) -> Iterator[Diagnosis]:
    """No node that could take pods has our taint."""
    for node in gpu_nodes(seen):
        if node.taints.ours is None:
            continue
        if is_left(seen, node):
            what = "its agent left, and it takes no new pods until those that use its slices have ended"
            advice = f"fraction-injector ledger --node {node.fact.name} names them"
            yield Diagnosis("warning", what, advice, node.fact.name)
        else:
            advice = "make its agent serve; if it does, see the controller's log"
            yield Diagnosis("warning", f"it takes no new pods: taint {AGENT_TAINT}", advice, node.fact.name)


def left(seen: Seen) -> Iterator[Diagnosis]:
    """No node is still listed with GPUs whose labels no longer select the agent."""
    agents = seen.agents.value
    reports, ledgers = seen.reports.value, known(seen.ledgers, {})
    for node in gpu_nodes(seen):
        name, labels = node.fact.name, node.fact.labels
        # Nodes with another device plugin have a GpuLedger too, and offer something.
        is_listed = name in reports or (node.offers_nothing and name in ledgers)
        if agents is None or not is_listed or not is_left(seen, node):
            continue
        wanted = agents.pods.node_selector.items()
        lacks = " ".join(f"{key}={value}" for key, value in wanted if labels.get(key) != value)
        label = f"kubectl label node {name} {lacks}" if lacks else "see agent.affinity"
        what = "its labels no longer select the agent, and it is still listed with GPUs"
        yield Diagnosis("warning", what, f"{label}; if that is meant, kubectl delete gpunode {name}", name)


def cards(seen: Seen) -> Iterator[Diagnosis]:
    """Every GPU that an agent knows is healthy."""
    labels = {node.fact.name: node.fact.labels for node in seen.nodes.value}
    for name, says in current_reports(seen):
        if not says.gpus:
            yield Diagnosis("failed", "its agent finds no GPU", "run nvidia-smi on the node", name)
        elif lost := _lost(says, labels[name]):
            which = f"GPU {lost[0]} was" if len(lost) == 1 else f"GPUs {', '.join(map(str, lost))} were"
            what = f"{which} lost before the agent started"
            yield Diagnosis("failed", what, _LOST_ADVICE, name)
        for card in says.shared:
            if not card.healthy:
                what = f"GPU {card.index} is unhealthy: {card.why or 'no reason is given'}"
                yield Diagnosis("failed", what, advice_for(card.why), name)


def _lost(says: AgentSays, labels: Mapping[str, str]) -> list[int]:
    """Return the GPUs that the agent left out: gaps in the driver's numbers, and those that the label counts.

    With MIG the label may count instances.
    """
    labelled = 0 if says.has_mig else label_number(labels.get(GPU_COUNT_LABEL)) or 0
    indices = {card.index for card in says.gpus}
    return [index for index in range(max(min(labelled, MAX_CARDS), *indices, 0)) if index not in indices]


def gpu_nodes(seen: Seen) -> Sequence[SeenNode]:
    """Return the nodes to check that show any sign of a GPU."""
    reports = known(seen.reports, {})
    return [
        node
        for node in seen.nodes.value
        if seen.node in {None, node.fact.name} and (_shows_gpu(node) or node.fact.name in reports)
    ]


def current_reports(seen: Seen) -> Iterator[tuple[str, AgentSays]]:
    """Yield (node, report) of the nodes to check, without the last reports of agents that left."""
    chosen = {node.fact.name for node in gpu_nodes(seen) if not is_left(seen, node)}
    for name, says in seen.reports.value.items():
        if name in chosen:
            yield name, says


def is_left(seen: Seen, node: SeenNode) -> bool:
    """Whether the agent's DaemonSet neither covers a node nor still has a pod there."""
    agents, fact = known(seen.agents, None), node.fact
    if agents is None or any(pod.node == fact.name for pod in known(seen.agent_pods, ())):
        return False
    return not agents.pods.covers(fact.name, fact.labels, fact.taints)


def _shows_gpu(node: SeenNode) -> bool:
    fact = node.fact
    offers = fact.has_gpus
    return offers or node.taints.ours is not None or fact.labels.get(GPU_PRESENT_LABEL) == "true"


def with_agent(seen: Seen) -> Iterator[SeenNode]:
    """Yield the nodes with an agent, or with our taint; not those whose agent left."""
    on = {pod.node for pod in known(seen.agent_pods, ())}
    reports = known(seen.reports, {})
    for node in gpu_nodes(seen):
        if is_left(seen, node):
            continue
        if node.fact.name in on or node.fact.name in reports or node.taints.ours is not None:
            yield node

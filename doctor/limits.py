"""Checks of what limits shares on nodes: limiter, driver, MIG profiles. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.agents import current_reports, gpu_nodes
from doctor.finding import Diagnosis
from doctor.seen import Seen
from kube.names import MIG_CONFIG_LABEL, MIG_CONFIG_STATE_LABEL

HELD = "held"
"""What an agent says where the driver holds shares."""
UNUSED = "not used: "
"""Begin of the reason of an agent that may do without the driver."""
_ESCAPES = "docs/getting-started/agent.md#what-still-escapes"
_OTHER_CARDS = "run the agent there, which reports them, or turn MIG off (docs/operating/mig.md)"
_OTHER_DRIVER = "upgrade driver or toolkit there"
_UNDIVIDED = ("", "all-disabled")
_OTHER_IMAGE = "use an image with glibc 2.28 or newer that is not Alpine, and no static binaries"


def unlimited(seen: Seen) -> Iterator[Diagnosis]:
    """Every program that has a share of a GPU has its limiter loaded."""
    found = dict(current_reports(seen))
    if found and all(says.unlimited is None for says in found.values()):
        what = "no agent looks for programs that run without their limiter"
        yield Diagnosis("skipped", what, "set agent.podMetrics: true to have them found")
    for node, says in found.items():
        if says.unlimited is None:
            continue
        named = says.unlimited.containers
        for each in named:
            what = (
                f"container {each.container} of pod {each.namespace}/{each.pod} uses GPU {each.gpu} without"
                f" the limiter of its {each.memory_mib} MiB"
            )
            yield Diagnosis("failed", what, _OTHER_IMAGE, node)
        if (more := says.unlimited.count - len(named)) > 0:
            yield Diagnosis("failed", f"{more} more containers run without their limiter", _OTHER_IMAGE, node)


def driver_limits(seen: Seen) -> Iterator[Diagnosis]:
    """What limits shares on each node, and what escapes; the driver, where it has to."""
    for node, says in current_reports(seen):
        if says.driver_limits == HELD:
            what = f"shares are limited by {says.limit or 'driver'}: only managed memory escapes"
            yield Diagnosis("ok", what, node=node)
        elif says.limit and says.driver_limits.startswith(UNUSED):
            what = f"shares are limited by {says.limit}, which some programs escape ({_ESCAPES})"
            yield Diagnosis("ok", f"{what}; the driver is {says.driver_limits}", node=node)
        elif says.driver_limits and not says.driver_limits.startswith(UNUSED):
            what = f"the driver does not limit shares (agent.driverLimits): {says.driver_limits}"
            is_old = "is not of version 2" in says.driver_limits
            repair = "boot the node with control groups of version 2" if is_old else _OTHER_DRIVER
            until = f"; until then only {says.limit} limits programs" if says.limit else ""
            yield Diagnosis("warning", what, f"{repair}{until}", node)


def mig_profiles(seen: Seen) -> Iterator[Diagnosis]:
    """The MIG profiles of every card that is divided are known."""
    reports = dict(current_reports(seen))
    for node in gpu_nodes(seen):
        name, labels = node.fact.name, node.fact.labels
        says = reports.get(name)
        divided = labels.get(MIG_CONFIG_LABEL, "") not in _UNDIVIDED or bool(node.fact.instances)
        is_known = node.fact.mig_card is not None or (says is not None and bool(says.mig_profiles))
        if node.fact.product and (divided or (says is not None and says.has_mig)) and not is_known:
            model = node.fact.product
            what = f"the MIG profiles of {model} are not known: no share is placed on its instances"
            yield Diagnosis("warning", what, _OTHER_CARDS, name)


def mig_state(seen: Seen) -> Iterator[Diagnosis]:
    """NVIDIA's MIG manager has divided every card as it was asked to."""
    for node in seen.nodes.value:
        name, labels = node.fact.name, node.fact.labels
        state, config = labels.get(MIG_CONFIG_STATE_LABEL, "success"), labels.get(MIG_CONFIG_LABEL, "")
        if state == "success" or seen.node not in {None, name}:
            continue
        if state == "failed":
            what = f"the MIG manager could not apply {MIG_CONFIG_LABEL} {config}"
            yield Diagnosis(
                "failed", what, "see the log of its pod on the node, then set the label again", name
            )
        else:
            what = f"{MIG_CONFIG_LABEL} {config} is {state}: until then its cards take no pods"
            yield Diagnosis("warning", what, "wait; if it stays, see the log of the MIG manager's pod", name)

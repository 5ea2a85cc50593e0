"""What to do about each reason that an agent reports, or the kubelet about it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.finding import cut

READ_LOG = "read the log of the agent's pod on the node"
_RESOURCE = re.compile(r"(?:^|; )([a-z0-9.-]+/[A-Za-z0-9._-]+): ")
_INSTALL = "docs/getting-started/agent.md says which values go with which nodes"
_TOOLKIT = f"check agent.toolkitDir and agent.driverRoot on the node; {_INSTALL}"
_KUBELET = "the kubelet has to answer: check it on the node, and agent.kubeletDir"
_WAIT = f"wait a minute; if it stays, {READ_LOG}"

_XID = "if it stays for minutes, look the Xid up in NVIDIA's catalog; reset the GPU or reboot the node"
_TWO_PLUGINS = "label the node nvidia.com/gpu.deploy.device-plugin=false, or keep the agent away from it"
_NO_CLASS = (
    "create the RuntimeClass, or do without: agent.runtimeClassName empty, agent.privileged and"
    " agent.driverRoot"
)
_NO_RUNTIME = (
    "restart k3s, which looks for NVIDIA's toolkit only when it starts; elsewhere configure the runtime on"
    " the node, or do without: agent.runtimeClassName empty, agent.privileged and agent.driverRoot"
)
_SOCKET = f"set agent.runtimeSocket: /run/k3s/containerd/containerd.sock on k3s and RKE2; {_INSTALL}"

_ADVICE: tuple[tuple[str, str], ...] = (
    # Of the node, before any GPU is offered (agent.preparation, agent.plugins).
    ("CDI is off in", "set enable_cdi = true in containerd's configuration, restart it, delete the pod"),
    ("does not say whether CDI is on", "if you know that it is, set agent.cdiEnabled: true"),
    ("the container runtime was not asked", "check agent.runtimeSocket, or set agent.cdiEnabled: true"),
    (
        "runs CDI devices without their limit|is not known to obey CDI|is not of the form containerd",
        "use containerd 1.7 or newer, or CRI-O 1.23 or newer",
    ),
    ("no CDI specification in", "set agent.driverRoot, or run nvidia-ctk cdi generate on the node"),
    ("nvidia-ctk", _TOOLKIT),
    ("another agent runs on this node", "end one of the two agents"),
    ("some cards shall stay whole", "use mode per-gpu in the agent's policy, or leave agent.divide empty"),
    ("is not there: put the library", "check agent.library, or choose a policy with limiter none"),
    ("is no file that the agent can read", "have the library's init container copy the file, no link"),
    ("is not what it was when the agent started", "put it back, or delete the agent's pod if it is meant"),
    ("can be written by others", "make the folder root's on the node, with mode 755"),
    ("is not a (folder|file) of the agent's own|is a link: remove", "remove it on the node"),
    ("cannot be (written|removed): No space left", "free disk space on the node"),
    ("cannot be (written|removed)", "check agent.stateDir and agent.cdiDirs: the agent writes there"),
    # Of the registration with the kubelet (agent.registration).
    ("the kubelet is away", _KUBELET),
    ("the kubelet does not register it|does not ask for its devices", _KUBELET),
    ("counts another plugin's devices under this name", _TWO_PLUGINS),
    ("the kubelet started again|closed the stream of devices|not registered with the kubelet yet", _WAIT),
    ("no GPU is offered yet", _WAIT),
    ("the agent has ended", "look for its pod on the node: kubectl get pods --output wide"),
    # Of Dynamic Resource Allocation (agent.dra).
    ("drain the node with agent.offer: dra", "set agent.offer: dra again, drain the node, then change it"),
    (
        "DRAConsumableCapacity",
        "turn the feature gate on in API server and scheduler, or use agent.offer: device-plugin",
    ),
    ("its ResourceSlice is not published yet|its socket was removed", _WAIT),
    (
        "the API server answered 404",
        "Kubernetes 1.34 or newer serves resource.k8s.io/v1: use agent.offer: device-plugin",
    ),
    (
        "the API server answered|api server|resourceslices",
        "check the rights of the agent's account, and the API server",
    ),
    # Of a card (agent.health, agent.gpu, agent.state).
    ("it does not answer", "run nvidia-smi on the node; reset the GPU or reboot the node"),
    ("its driver asks for", "drain the GPU, do what the driver asks for, and it is offered again"),
    ("it is in MIG mode", "turn MIG off, or keep the agent away from the node"),
    ("its errors cannot be watched", "run nvidia-smi on the node, and read the agent's log"),
    (
        "holds it as|hold slices of it",
        "wait until these pods have ended, or delete them: then the GPU is offered by itself",
    ),
    (
        "DRA driver .* offers it too",
        "GPUCluster: label the node nvidia.com/gpu.deploy.dra-driver=false; else uninstall one of the two",
    ),
    ("device IDs .* name no card", f"{_TWO_PLUGINS}, or have that plugin name cards by UUID"),
    ("another device plugin offers it too", f"{_TWO_PLUGINS}, or leave the card out of agent.divide"),
    (r"Xid \d+", _XID),
    # Of the agent's process and pod.
    ("agent.unifiedMemoryMiB", "set it to the MiB of the node's memory that pods may use on the GPU"),
    (
        "no NVIDIA driver|NVML: .*Library Not Found",
        f"check agent.runtimeClassName and agent.driverRoot; {_INSTALL}",
    ),
    ("NVML: .*version mismatch", "the driver was replaced: delete the agent's pod, or reboot the node"),
    ("NVML", "the driver does not answer: run nvidia-smi on the node"),
    ("no runtime for|unknown runtime handler|RuntimeHandler", _NO_RUNTIME),
    ("RuntimeClass .*not found", _NO_CLASS),
    ("is not a socket file|container runtime does not answer on", _SOCKET),
    ("ErrImagePull|ImagePullBackOff|InvalidImageName", "check image and imagePullSecrets"),
    ("CreateContainerConfigError|CreateContainerError|FailedMount|hostPath type check", _INSTALL),
    ("OOMKilled", "raise agent.resources"),
    ("violates PodSecurity", "label the namespace pod-security.kubernetes.io/enforce=privileged"),
    ("exceeded quota", "raise the namespace's ResourceQuota"),
    ("Unscheduled", "kubectl describe pod says why the scheduler finds no room on the node"),
    ("[Pp]olic(y|ies)", "repair the policies: the line about them says what is wrong"),
)
_RULES = tuple((re.compile(pattern), advice) for pattern, advice in _ADVICE)


def advice_for(reason: str) -> str:
    """Return what to do about a reason; for an unknown one, where to read more."""
    return next((advice for pattern, advice in _RULES if pattern.search(reason)), READ_LOG)


def reasons_of(missing: str) -> Iterator[tuple[str, str]]:
    """Yield (resources, reason) of the `missing` field of a GpuNode, each reason once.

    Args:
        missing: `RESOURCE: REASON; RESOURCE: REASON`, or only a reason. Its end may be cut off.
    """
    parts = _RESOURCE.split(missing)
    if len(parts) == 1:
        yield "", cut(missing)
        return
    found: dict[str, list[str]] = {}
    for resource, reason in zip(parts[1::2], parts[2::2], strict=True):
        # The last one may be cut off.
        whole = next((each for each in found if each.startswith(reason)), reason)
        found.setdefault(whole, []).append(resource)
    for reason, resources in found.items():
        more = f" and {len(resources) - 1} more" if len(resources) > 1 else ""
        yield f"{resources[0]}{more}", cut(reason)

"""GPU-operator values as text, because every line has a comment with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from kube.names import AGENT_TAINT, GPU_RESOURCE, NVIDIA_DOMAIN
from modes.mode import ModeName, OperatorValues
from policies.model.effective import EffectivePolicy

MAX_GPUS = 64
CONFIG_MAP = "fraction-injector-device-plugin"
CONFIG_KEY = "slices"
MIG_CONFIG_MAP = "fraction-injector-mig"
OPENSHIFT_NAMESPACE = "nvidia-gpu-operator"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
PLUGIN_OFF = f"{PLUGIN}=false"
"""Label with which the operator excludes a node from its device plugin."""


class Platform(StrEnum):
    """Kubernetes distributions with other paths of containerd, or another installation of the operator."""

    K3S = "k3s"
    MICROK8S = "microk8s"
    OPENSHIFT = "openshift"


class CannotWorkError(ValueError):
    """The combination cannot work; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class ValuesRequest:
    """The admin's options."""

    gpus: int
    platform: Platform | None
    cdi: bool | None
    """None for the mode's default."""
    mig: bool = False
    """Whether cards of nodes are divided into MIG instances, also on demand."""
    agent: bool = False
    """The chart's agent offers the GPUs of nodes that opt in."""


Variables = list[tuple[str, str, str]]
"""Name, value and reason."""

_CONTAINERD: dict[Platform, Variables] = {
    Platform.K3S: [
        ("CONTAINERD_SOCKET", "/run/k3s/containerd/containerd.sock", "where k3s keeps containerd's socket"),
    ],
    Platform.MICROK8S: [
        (
            "CONTAINERD_CONFIG",
            "/var/snap/microk8s/current/args/containerd-template.toml",
            "MicroK8s makes containerd's configuration from this template",
        ),
        (
            "CONTAINERD_SOCKET",
            "/var/snap/microk8s/common/run/containerd.sock",
            "where MicroK8s keeps containerd's socket",
        ),
        ("CONTAINERD_RUNTIME_CLASS", "nvidia", "name of the runtime class"),
        ("CONTAINERD_SET_AS_DEFAULT", "true", "pods without a runtime class get their GPU too"),
    ],
}
_TOOLKIT_WITHOUT_CDI: Variables = [
    (
        "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED",
        "false",
        "images that say NVIDIA_VISIBLE_DEVICES=all get no GPU by it",
    ),
    (
        "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS",
        "true",
        "GPUs are handed over as mounts, which a pod cannot forge by a variable",
    ),
    (
        "NVIDIA_CONTAINER_TOOLKIT_OPT_IN_FEATURES",
        "disable-cuda-compat-lib-hook",
        "no compat libcuda in front of the driver's, past a preloaded limiter",
    ),
]
_PLUGIN: Variables = [
    ("PASS_DEVICE_SPECS", "true", "the kubelet's CPU manager keeps the device nodes on update"),
    ("FAIL_ON_INIT_ERROR", "true", "a node without a working driver shows as a failed pod, not as no GPUs"),
    ("NVIDIA_VISIBLE_DEVICES", "all", "the plugin itself sees every GPU"),
    ("NVIDIA_DRIVER_CAPABILITIES", "all", "and all of the driver's libraries"),
]
_PLUGIN_WITHOUT_CDI: Variables = [
    ("DEVICE_LIST_STRATEGY", "volume-mounts", "goes with the toolkit's ACCEPT_..._AS_VOLUME_MOUNTS"),
    ("DEVICE_ID_STRATEGY", "uuid", "a GPU keeps its identity when the driver renumbers GPUs"),
]


def render(policy: EffectivePolicy, wanted: ValuesRequest, mode: ModeName | None) -> str:
    """Return the values, or for OpenShift the manifests, with which nodes match the policy.

    Raises:
        CannotWorkError: the combination cannot work.
    """
    cdi = wanted.agent or policy.mode.needs_cdi if wanted.cdi is None else wanted.cdi
    _refuse_other_mode(policy, mode)
    if wanted.agent:
        return "\n".join(_for_agent(policy, wanted, cdi=cdi)) + "\n"
    _refuse(policy, cdi=cdi)
    own = policy.mode.operator_values(wanted.gpus)
    head = _head(policy, wanted, own, cdi=cdi)
    body = _openshift(policy, wanted, own, cdi=cdi) if wanted.platform is Platform.OPENSHIFT else None
    return "\n".join([*head, *(body or _values(policy, wanted, own, cdi=cdi))]) + "\n"


def _refuse_other_mode(policy: EffectivePolicy, mode: ModeName | None) -> None:
    if mode is not None and mode != policy.mode.name:
        raise CannotWorkError(
            f"--mode {mode}: policy {policy.name} says resources.mode {policy.mode.name}, and pods would ask"
            " for names that no node has; change the policy or leave --mode out"
        )


def _refuse(policy: EffectivePolicy, *, cdi: bool) -> None:
    if policy.limiter.name == "nvidia-driver" and not cdi:
        raise CannotWorkError(
            f"limiter nvidia-driver of policy {policy.name} works with CDI only, which is off here;"
            " use resources.mode pooled with --cdi on, or another limiter"
        )
    problem = policy.mode.operator_problem(cdi=cdi)
    if problem is not None:
        raise CannotWorkError(problem)
    resource = policy.mode.resource
    if not resource.startswith(NVIDIA_DOMAIN):
        raise CannotWorkError(
            f"resources.name {resource}: NVIDIA's device plugin names begin with {NVIDIA_DOMAIN}"
        )


def _head(policy: EffectivePolicy, wanted: ValuesRequest, own: OperatorValues, *, cdi: bool) -> list[str]:
    platform = f", platform {wanted.platform}" if wanted.platform else ""
    switch = "on" if cdi else "off"
    return [
        f"# GPU-operator values for policy {policy.name}: mode {policy.mode.name}, CDI {switch}{platform},",
        f"# nodes of {wanted.gpus} GPUs, {policy.slices_per_gpu} slices each.",
        "# Time slicing shares compute evenly between busy pods; a fraction is a share of memory.",
        f"# {own.note}",
        f"# A node with the chart's agent needs no other plugin: kubectl label node NAME {PLUGIN_OFF}",
    ]


def _for_agent(policy: EffectivePolicy, wanted: ValuesRequest, *, cdi: bool) -> Iterator[str]:
    own = policy.mode.operator_values(wanted.gpus)
    if not own.is_shared:
        raise CannotWorkError(
            f"policy {policy.name} says resources.mode {policy.mode.name}, and instances are offered by"
            " NVIDIA's own device plugin: leave --agent out"
        )
    if not cdi:
        raise CannotWorkError("the agent hands GPUs over by CDI: leave --cdi off out")
    yield f"# GPU-operator values for nodes of {wanted.gpus} GPUs of our agent, policy {policy.name}."
    yield "# A node opts in by one label, and out by the same with true:"
    yield f"#   kubectl label node NAME {PLUGIN_OFF} --overwrite"
    yield "# On all other nodes the operator's own device plugin stays."
    values = [*_cdi(cdi=True), *_tolerations(), *_dcgm(own, ""), *(_mig("") if wanted.mig else ())]
    if toolkit := _toolkit(wanted.platform, cdi=True):
        values += ["toolkit:", "  env:", *_env(toolkit, "    ")]
    if wanted.platform is not Platform.OPENSHIFT:
        yield from values
        return
    yield "# OpenShift's operator has no Helm values: patch the ClusterPolicy with"
    yield "#   oc patch clusterpolicy gpu-cluster-policy --type merge --patch-file <this file>"
    yield from ["spec:", *(f"  {line}" for line in values)]


def _tolerations() -> Iterator[str]:
    yield "daemonsets:"
    yield "  # This replaces the list that the operator has: add yours."
    yield "  tolerations:"
    yield "    # The operator's own."
    yield from _toleration(GPU_RESOURCE)
    yield "    # No new pods come until the agent serves, and it needs driver and toolkit."
    yield from _toleration(AGENT_TAINT)


def _toleration(key: str) -> Iterator[str]:
    yield from (f"    - key: {key}", "      operator: Exists", "      effect: NoSchedule")


def _values(
    policy: EffectivePolicy, wanted: ValuesRequest, own: OperatorValues, *, cdi: bool
) -> Iterator[str]:
    yield from _cdi(cdi=cdi)
    toolkit = _toolkit(wanted.platform, cdi=cdi)
    if toolkit:
        yield from ["toolkit:", "  env:", *_env(toolkit, "    ")]
    yield "devicePlugin:"
    yield from (f"  {line}" for line in own.device_plugin)
    yield from ["  env:", *_env(_plugin(cdi=cdi), "    ")]
    yield "  config:"
    yield f"    name: {CONFIG_MAP}"
    yield "    create: true"
    yield "    # For every node that does not name another key in its label nvidia.com/device-plugin.config."
    yield f"    default: {CONFIG_KEY}"
    yield "    data:"
    yield f"      {CONFIG_KEY}: |-"
    yield from _plugin_config(policy, own, "        ", mig=wanted.mig)
    yield from _dcgm(own, "")
    if wanted.mig:
        yield from _mig("")
    elif not own.is_shared:
        yield from ("mig:", "  strategy: mixed")


def _openshift(
    policy: EffectivePolicy, wanted: ValuesRequest, own: OperatorValues, *, cdi: bool
) -> Iterator[str]:
    yield "# OpenShift's operator has no Helm values: apply the ConfigMap, then patch the ClusterPolicy with"
    yield "#   oc patch clusterpolicy gpu-cluster-policy --type merge --patch-file <the second document>"
    yield from ["apiVersion: v1", "kind: ConfigMap", "metadata:", f"  name: {CONFIG_MAP}"]
    yield f"  namespace: {OPENSHIFT_NAMESPACE}"
    yield from ["data:", f"  {CONFIG_KEY}: |-"]
    yield from _plugin_config(policy, own, "    ", mig=wanted.mig)
    yield from ["---", "spec:"]
    yield from (f"  {line}" for line in _cdi(cdi=cdi))
    if toolkit := _toolkit(None, cdi=cdi):
        yield from ["  toolkit:", "    env:", *_env(toolkit, "      ")]
    yield from ["  devicePlugin:", "    enabled: true"]
    yield from (f"    {line}" for line in own.device_plugin)
    yield from ["    env:", *_env(_plugin(cdi=cdi), "      ")]
    yield from ["    config:", f"      name: {CONFIG_MAP}", f"      default: {CONFIG_KEY}"]
    yield from _dcgm(own, "  ")
    yield from _mig("  ") if wanted.mig else ()


def _mig(indent: str) -> Iterator[str]:
    yield f"{indent}mig:"
    yield f"{indent}  strategy: mixed  # a resource for each profile, such as nvidia.com/mig-1g.10gb"
    yield f"{indent}migManager:"
    yield f"{indent}  enabled: true"
    yield f"{indent}  config:"
    yield f"{indent}    # The controller makes and writes it: the chart's mig.dynamic.configMap."
    yield f"{indent}    name: {MIG_CONFIG_MAP}"
    if not indent:
        yield f"{indent}    create: false"
    yield f"{indent}    # Until a node is divided."
    yield f"{indent}    default: all-disabled"


def _cdi(*, cdi: bool) -> list[str]:
    if cdi:
        return ["cdi:", "  enabled: true  # the operator's default from 25.10 on"]
    return ["cdi:", "  enabled: false  # on by default from operator 25.10 on; volume mounts need it off"]


def _toolkit(platform: Platform | None, *, cdi: bool) -> Variables:
    own = [] if cdi else _TOOLKIT_WITHOUT_CDI
    return [*own, *(_CONTAINERD.get(platform, []) if platform else [])]


def _plugin(*, cdi: bool) -> Variables:
    return _PLUGIN if cdi else [*_PLUGIN, *_PLUGIN_WITHOUT_CDI]


def _env(variables: Variables, indent: str) -> Iterator[str]:
    for name, value, reason in variables:
        yield f"{indent}# {reason[0].upper()}{reason[1:]}."
        yield f"{indent}- name: {name}"
        yield f'{indent}  value: "{value}"'


def _plugin_config(policy: EffectivePolicy, own: OperatorValues, indent: str, *, mig: bool) -> Iterator[str]:
    rename = str(policy.mode.resource.endswith(".shared")).lower()
    strategy = "mixed" if mig or not own.is_shared else "none"
    yield from (f"{indent}{line}" for line in ("version: v1", "flags:", f"  migStrategy: {strategy}"))
    if not own.is_shared:
        return
    yield from (
        f"{indent}{line}"
        for line in (
            "sharing:",
            "  timeSlicing:",
            f"    # The policy says {policy.mode.resource}.",
            f"    renameByDefault: {rename}",
            "    # A fraction is several slices: a request for more than one must not fail.",
            "    failRequestsGreaterThanOne: false",
            "    resources:",
        )
    )
    for renamed in own.renamed or (None,):
        yield f"{indent}    - name: nvidia.com/gpu"
        if renamed is not None:
            yield f"{indent}      rename: {renamed[0]}"
            yield f'{indent}      devices: ["{renamed[1]}"]'
        yield f"{indent}      replicas: {policy.slices_per_gpu}  # slicesPerGpu of the policy"


def _dcgm(own: OperatorValues, indent: str) -> Iterator[str]:
    variables: Variables = [("KUBERNETES_VIRTUAL_GPUS", "true", "a series for each pod that shares a GPU")]
    if own.exporter_names:
        names = ",".join(own.exporter_names)
        variables.append(("NVIDIA_RESOURCE_NAMES", names, "the exporter finds pods by these names only"))
    yield f"{indent}dcgmExporter:"
    yield f"{indent}  env:"
    yield from _env(variables, f"{indent}    ")

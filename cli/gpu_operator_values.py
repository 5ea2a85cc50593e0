"""GPU-operator values: the file of `cli/gpu_operator/` for a policy's mode, with its placeholders filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from string import Template
from textwrap import indent

import yaml

from kube.names import AGENT_TAINT
from modes.resource_names import INDEX
from policies.model.effective import EffectivePolicy

MAX_GPUS = 64
PLUGIN_OFF = "nvidia.com/gpu.deploy.device-plugin=false"
"""Label with which the operator excludes a node from its device plugin."""
_FILES = files("cli") / "gpu_operator"


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
    mig: bool = False
    """Whether cards of nodes are divided into MIG instances, also on demand."""
    agent: bool = False
    """The chart's agent offers the GPUs of nodes that opt in."""


_MICROK8S = "/var/snap/microk8s"
_CONTAINERD: dict[Platform | None, Sequence[tuple[str, str]]] = {
    Platform.K3S: [("CONTAINERD_SOCKET", "/run/k3s/containerd/containerd.sock")],
    Platform.MICROK8S: [
        # MicroK8s makes containerd's configuration from this template.
        ("CONTAINERD_CONFIG", f"{_MICROK8S}/current/args/containerd-template.toml"),
        ("CONTAINERD_SOCKET", f"{_MICROK8S}/common/run/containerd.sock"),
        ("CONTAINERD_RUNTIME_CLASS", "nvidia"),
        # Pods without a runtime class get their GPU too.
        ("CONTAINERD_SET_AS_DEFAULT", '"true"'),
    ],
}


def render(policy: EffectivePolicy, wanted: ValuesRequest) -> str:
    """Return the values, or for OpenShift the manifests, with which nodes match the policy.

    Raises:
        CannotWorkError: the combination cannot work.
    """
    _refuse(policy, wanted)
    text = (_FILES / f"{'agent' if wanted.agent else policy.mode.name}.yaml").read_text()
    lines = Template(text).substitute(_placeholders(policy, wanted)).splitlines()
    filled = "\n".join(line for line in lines if line) + "\n"
    if wanted.mig:
        filled += (_FILES / "mig-manager.yaml").read_text()
    return _for_openshift(filled) if wanted.platform is Platform.OPENSHIFT else filled


def _refuse(policy: EffectivePolicy, wanted: ValuesRequest) -> None:
    mode = policy.mode
    problem = mode.operator_problem() if mode.is_claimed or not wanted.agent else None
    if wanted.agent and not mode.needs_limiter:
        problem = "instances are offered by NVIDIA's own device plugin: leave --agent out"
    elif not wanted.agent and policy.limiter.name == "nvidia-driver" and INDEX in mode.resource:
        problem = (
            f"limiter nvidia-driver of policy {policy.name} works with CDI only, which is off for names of"
            " single GPUs; use resources.mode pooled, or another limiter"
        )
    if problem is not None:
        raise CannotWorkError(problem)


def _placeholders(policy: EffectivePolicy, wanted: ValuesRequest) -> dict[str, object]:
    resource, slices = policy.mode.resource, policy.slices_per_gpu
    names = [resource.replace(INDEX, str(index)) for index in range(wanted.gpus)]
    gpus = [
        f'- name: nvidia.com/gpu\n  rename: {name}\n  devices: ["{index}"]\n  replicas: {slices}'
        for index, name in enumerate(names)
    ]
    variables = [f"- name: {name}\n  value: {value}" for name, value in _CONTAINERD.get(wanted.platform, ())]
    containerd = indent("\n".join(variables), "    ")
    return {
        "gpus": wanted.gpus,
        "slices": slices,
        "resource": resource,
        "is_renamed": str(resource.endswith(".shared")).lower(),
        "renamed": indent("\n".join(gpus), " " * 12),
        "names": ",".join(dict.fromkeys(names)),
        "containerd": containerd,
        "toolkit": f"toolkit:\n  env:\n{containerd}" if containerd else "",
        "strategy": "mig:\n  strategy: mixed  # a resource for each profile" if wanted.mig else "",
        "mig_strategy": "mixed" if wanted.mig else "none",
        "agent_taint": AGENT_TAINT,
        "plugin_off": PLUGIN_OFF,
    }


_OPENSHIFT = """\
# OpenShift's operator has no Helm values: {first}patch the ClusterPolicy with
#   oc patch clusterpolicy gpu-cluster-policy --type merge --patch-file <{file}>
"""
_CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  namespace: nvidia-gpu-operator
data:
  slices: |-
"""


def _for_openshift(text: str) -> str:
    """Return Helm values as a patch for the ClusterPolicy, after the ConfigMap that the chart would make."""
    values = yaml.safe_load(text)
    head = text[: text.index("cdi:")]
    values.get("migManager", {}).get("config", {}).pop("create", None)
    if "devicePlugin" not in values:
        return head + _OPENSHIFT.format(first="", file="this file") + yaml.safe_dump({"spec": values})
    values["devicePlugin"]["enabled"] = True
    config = values["devicePlugin"]["config"]
    config.pop("create")
    config_map = _CONFIG_MAP.format(name=config["name"]) + indent(config.pop("data")["slices"], "    ")
    head += _OPENSHIFT.format(first="apply the ConfigMap, then ", file="the second document")
    return f"{head}{config_map}\n---\n{yaml.safe_dump({'spec': values})}"

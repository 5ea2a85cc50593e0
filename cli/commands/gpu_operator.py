"""`fraction-injector gpu-operator-values`: fills the file of `cli/gpu_operator/` for a policy's mode."""

from __future__ import annotations

from enum import StrEnum
from importlib.resources import files
from string import Template
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from cli.options import PoliciesOption, fail, read_policies
from kube.names import AGENT_TAINT
from modes.resource_names import INDEX
from service.options import DEFAULT_POLICIES

if TYPE_CHECKING:
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


_MICROK8S = "/var/snap/microk8s"
_CONTAINERD = {
    Platform.K3S: {"CONTAINERD_SOCKET": "/run/k3s/containerd/containerd.sock"},
    Platform.MICROK8S: {
        # MicroK8s makes containerd's configuration from this template.
        "CONTAINERD_CONFIG": f"{_MICROK8S}/current/args/containerd-template.toml",
        "CONTAINERD_SOCKET": f"{_MICROK8S}/common/run/containerd.sock",
        "CONTAINERD_RUNTIME_CLASS": "nvidia",
        # Pods without a runtime class get their GPU too.
        "CONTAINERD_SET_AS_DEFAULT": '"true"',
    },
}


def gpu_operator_values(
    *,
    gpus: Annotated[int, typer.Option(min=1, max=MAX_GPUS, help="GPUs of one node (the largest).")],
    platform: Annotated[
        Platform | None, typer.Option(show_default="any other", help="A distribution with its own paths.")
    ] = None,
    mig: Annotated[
        bool, typer.Option("--mig", help="Cards of some nodes are divided into MIG instances.")
    ] = False,
    agent: Annotated[
        bool,
        typer.Option("--agent", help="The node agent offers the GPUs of nodes that opt in by a label."),
    ] = False,
    policies: PoliciesOption = DEFAULT_POLICIES,
) -> None:
    """Print GPU-operator values with which nodes advertise the resources of policy default.

    On OpenShift, a ConfigMap and a patch for the ClusterPolicy. Exit code 2: the combination cannot work.
    """
    policy = read_policies(policies).resolve("default", None, None)
    if (problem := _problem(policy, agent=agent)) is not None:
        fail(problem)
    text = (_FILES / f"{'agent' if agent else policy.mode.name}.yaml").read_text()
    lines = Template(text).substitute(_placeholders(policy, gpus, platform, mig=mig)).splitlines()
    filled = "\n".join(filter(None, lines)) + "\n"
    if mig:
        filled += (_FILES / "mig-manager.yaml").read_text()
    typer.echo(_for_openshift(filled) if platform is Platform.OPENSHIFT else filled, nl=False)


def _problem(policy: EffectivePolicy, *, agent: bool) -> str | None:
    """Return why the combination cannot work, and what to do; None if it can."""
    mode = policy.mode
    if agent and not mode.needs_limiter:
        return "instances are offered by NVIDIA's own device plugin: leave --agent out"
    if not agent and policy.limiter.name == "nvidia-driver" and INDEX in mode.resource:
        return (
            f"limiter nvidia-driver of policy {policy.name} works with CDI only, which is off for names of"
            " single GPUs; use resources.mode pooled, or another limiter"
        )
    is_of_agent = agent and (mode.counts_slices or mode.limits_itself(mode.resource))
    return None if is_of_agent else mode.operator_problem()


def _placeholders(
    policy: EffectivePolicy, gpus: int, platform: Platform | None, *, mig: bool
) -> dict[str, Any]:
    resource, slices = policy.mode.resource, policy.slices_per_gpu
    names = [resource.replace(INDEX, str(index)) for index in range(gpus)]
    renamed = [
        f'- name: nvidia.com/gpu\n  rename: {name}\n  devices: ["{index}"]\n  replicas: {slices}'
        for index, name in enumerate(names)
    ]
    variables = _CONTAINERD.get(platform, {}) if platform is not None else {}
    given = [f"- name: {name}\n  value: {value}" for name, value in variables.items()]
    containerd = indent("\n".join(given), "    ")
    return {
        "gpus": gpus,
        "slices": slices,
        "resource": resource,
        "is_renamed": str(resource.endswith(".shared")).lower(),
        "renamed": indent("\n".join(renamed), " " * 12),
        "names": ",".join(dict.fromkeys(names)),
        "containerd": containerd,
        "toolkit": f"toolkit:\n  env:\n{containerd}" if containerd else "",
        "strategy": "mig:\n  strategy: mixed  # a resource for each profile" if mig else "",
        "mig_strategy": "mixed" if mig else "none",
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

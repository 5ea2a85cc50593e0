"""Kueue's manager as a process next to a control plane, with the rights of its own service account."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed import plain_http
from testbed.api import Object
from testbed.cluster import Cluster
from testbed.components import READY_S, write_kubeconfig
from testbed.kubernetes_version import HAS_RESOURCE_CLAIMS
from testbed.kueue import manifests
from testbed.kueue.certificates import Pair, make_pairs
from testbed.kueue.parts import MANAGER, MANIFESTS
from testbed.process import Process, start_on_free_ports

CONVERSION = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
OF_CLAIMS = ("", "ExtendedResource", "PartitionableDevices")
FEATURE_GATES = {
    "VisibilityOnDemand": False,
    **{f"KueueDRAIntegration{name}": HAS_RESOURCE_CLAIMS for name in OF_CLAIMS},
}
"""Without its extension API server, which would take a port of its own choice, and what is not served."""


@contextmanager
def kueue(cluster: Cluster, parts: Path, folder: Path, settings: Mapping[str, Any]) -> Iterator[None]:
    """Run Kueue for the namespaces with the label `manifests.MANAGED` while the context is open.

    Args:
        cluster: The control plane.
        parts: Folder of the program and its manifests.
        folder: Empty folder for its certificate, configuration and log.
        settings: Of its Configuration, as an administrator of Kueue writes it.

    Raises:
        ProcessError: It did not get ready.
        AssertionError: A manifest was refused.
    """
    authority, leaf = make_pairs(f"{manifests.SERVICE}.{manifests.NAMESPACE}.svc")
    (folder / "tls.crt").write_bytes(leaf.certificate)
    (folder / "tls.key").write_bytes(leaf.key)
    (folder / "ca.crt").write_bytes(authority.certificate)
    _apply(cluster, [*manifests.permissions(parts / MANIFESTS), manifests.secret(authority, leaf)])
    kubeconfig = folder / "kubeconfig"
    write_kubeconfig(cluster.home, cluster.url, kubeconfig, token=_token(cluster))
    installed: list[Object] = []

    def start(ports: list[int]) -> Process:
        installed[:] = _at_port(parts / MANIFESTS, ports[0], authority)
        _apply(cluster, installed)
        config = folder / "config.json"
        config.write_text(json.dumps(_configuration(folder, ports, settings)))
        command = [str(parts / MANAGER), f"--config={config}"]
        return Process(command, folder / "kueue.log", environment={"KUBECONFIG": str(kubeconfig)})

    process, _ = start_on_free_ports(2, start, lambda ports: plain_http.is_ready(ports[1]), READY_S)
    with process:
        try:
            yield
        finally:
            _take_away(cluster, installed)


def _at_port(folder: Path, port: int, authority: Pair) -> list[Object]:
    url = f"https://127.0.0.1:{port}"
    return [*manifests.crds(folder, url, authority), *manifests.webhooks(folder, url, authority)]


def _configuration(folder: Path, ports: list[int], settings: Mapping[str, Any]) -> Object:
    certificate = {"webhookServiceName": manifests.SERVICE, "webhookSecretName": manifests.SECRET}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        **settings,
        "namespace": manifests.NAMESPACE,
        "webhook": {"host": "127.0.0.1", "port": ports[0], "certDir": str(folder)},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{ports[1]}"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 500, "burst": 1000},
        "internalCertManagement": {"enable": True, **certificate},
        "featureGates": FEATURE_GATES | settings.get("featureGates", {}),
    }


def _apply(cluster: Cluster, objects: list[Object]) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    # The API server validates. Kubectl would read all its schemas for it, which takes long on a busy machine.
    options = ("--server-side", "--force-conflicts", "--validate=false", "--filename=-")
    ended = cluster.kubectl("apply", *options, stdin=listed)
    assert ended.code == 0, ended.stderr


def _token(cluster: Cluster) -> str:
    arguments = (manifests.ACCOUNT, f"--namespace={manifests.NAMESPACE}", "--duration=24h")
    return cluster.kubectl("create", "token", *arguments).stdout.strip()


def _take_away(cluster: Cluster, installed: list[Object]) -> None:
    """Remove the webhooks. The CRDs stay: an API server can take minutes to delete them."""
    for each in installed:
        name, api = each["metadata"]["name"], each["apiVersion"]
        if each["kind"] != "CustomResourceDefinition":
            cluster.api.delete(each["kind"], name, api=api)
        elif "conversion" in each["spec"]:
            cluster.api.patch(each["kind"], name, CONVERSION, api=api)

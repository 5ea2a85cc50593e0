"""Kueue's own manifests, with what `config/default` of its module and this machine change in them."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from testbed.api import Object

NAMESPACE, PREFIX = "kueue-system", "kueue-"
ACCOUNT = f"{PREFIX}controller-manager"
MANAGED = {"kueue-managed": "true"}
"""Label of the namespaces that Kueue sees to; other tests share the API server."""
RBAC = ("service_account", "role", "role_binding")


def permissions(folder: Path) -> Iterator[Object]:
    """Yield Kueue's namespace, its service account and what that may do."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for name in RBAC:
        for each in _documents(folder / "rbac" / f"{name}.yaml"):
            yield _installed(each)


def webhooks(folder: Path, url: str, ca_pem: bytes) -> list[Object]:
    """Return the webhook configurations, for the namespaces with `MANAGED` and a manager at a URL."""
    found = [_installed(each) for each in _documents(folder / "webhook" / "manifests.yaml")]
    for configuration in found:
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"] = _client(url + webhook["clientConfig"]["service"]["path"], ca_pem)
            webhook["namespaceSelector"] = {"matchLabels": MANAGED}
    return found


def crds(folder: Path, url: str, ca_pem: bytes) -> Iterator[Object]:
    """Yield the CRDs; the same ones as in Kueue's own installation have a webhook that converts them."""
    [kustomization] = _documents(folder / "crd" / "kustomization.yaml")
    conversions = {}
    for patch in kustomization["patches"]:
        [change] = _documents(folder / "crd" / patch["path"])
        conversion = change["spec"]["conversion"]
        conversion["webhook"]["clientConfig"] = _client(f"{url}/convert", ca_pem)
        conversions[change["metadata"]["name"]] = conversion
    for path in kustomization["resources"]:
        for crd in _documents(folder / "crd" / path):
            converted = conversions.get(crd["metadata"]["name"])
            yield {**crd, "spec": {**crd["spec"], **({"conversion": converted} if converted else {})}}


def _client(url: str, ca_pem: bytes) -> Object:
    return {"url": url, "caBundle": base64.b64encode(ca_pem).decode()}


def _installed(manifest: Object) -> Object:
    """Return a manifest with the names that kustomize gives it."""
    metadata = {**manifest["metadata"], "name": PREFIX + manifest["metadata"]["name"]}
    changed = {**manifest, "metadata": metadata}
    if "namespace" in metadata:
        metadata["namespace"] = NAMESPACE
    for subject in changed.get("subjects", ()):
        subject.update(name=PREFIX + subject["name"], namespace=NAMESPACE)
    if "roleRef" in changed:
        changed["roleRef"]["name"] = PREFIX + changed["roleRef"]["name"]
    for rule in changed.get("rules", ()):
        if "resourceNames" in rule and rule["apiGroups"] == ["admissionregistration.k8s.io"]:
            rule["resourceNames"] = [PREFIX + name for name in rule["resourceNames"]]
    return changed


def _documents(file: Path) -> list[Any]:
    return [each for each in yaml.safe_load_all(file.read_text()) if each]

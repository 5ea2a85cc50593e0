"""Kueue's own manifests, with what `config/default` of its module and this machine change in them."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from testbed.api import Object
from testbed.kueue.certificates import Pair

NAMESPACE, PREFIX = "kueue-system", "kueue-"
SERVICE = f"{PREFIX}webhook-service"
SECRET = f"{PREFIX}webhook-server-cert"
ACCOUNT = f"{PREFIX}controller-manager"
MANAGED = {"kueue-managed": "true"}
"""Label of the namespaces that Kueue sees to; other tests share the API server."""
RBAC = (
    "service_account",
    "role",
    "role_binding",
    "manager_secrets_role",
    "manager_secrets_role_binding",
)


def permissions(folder: Path) -> Iterator[Object]:
    """Yield Kueue's namespace, its service account and what that may do."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for name in RBAC:
        for each in _documents(folder / "rbac" / f"{name}.yaml"):
            yield _installed(each)


def secret(authority: Pair, leaf: Pair) -> Object:
    """Return the Secret of Kueue's certificate manager."""
    data = {"ca.crt": authority.certificate, "ca.key": authority.key}
    data |= {"tls.crt": leaf.certificate, "tls.key": leaf.key}
    metadata = {"name": SECRET, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": _in_base64(data)}


def webhooks(folder: Path, url: str, authority: Pair) -> list[Object]:
    """Return the webhook configurations, for the namespaces with `MANAGED` and a manager at a URL."""
    found = [_installed(each) for each in _documents(folder / "webhook" / "manifests.yaml")]
    for configuration in found:
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"] = _client(url + webhook["clientConfig"]["service"]["path"], authority)
            webhook["namespaceSelector"] = {"matchLabels": MANAGED}
    return found


def crds(folder: Path, url: str, authority: Pair) -> Iterator[Object]:
    """Yield the CRDs; the same ones as in Kueue's own installation have a webhook that converts them."""
    [kustomization] = _documents(folder / "crd" / "kustomization.yaml")
    conversions = {}
    for patch in kustomization["patches"]:
        [change] = _documents(folder / "crd" / patch["path"])
        conversion = change["spec"]["conversion"]
        conversion["webhook"]["clientConfig"] = _client(f"{url}/convert", authority)
        conversions[change["metadata"]["name"]] = conversion
    for path in kustomization["resources"]:
        for crd in _documents(folder / "crd" / path):
            converted = conversions.get(crd["metadata"]["name"])
            yield {**crd, "spec": {**crd["spec"], **({"conversion": converted} if converted else {})}}


def _client(url: str, authority: Pair) -> Object:
    return {"url": url, **_in_base64({"caBundle": authority.certificate})}


def _in_base64(values: dict[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in values.items()}


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

"""The product's Helm chart, as an admin uses it: template, install, upgrade, uninstall."""

import base64
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from testbed.api import Object
from testbed.cluster import Cluster
from testbed.command import WITHOUT_GARBAGE_COLLECTION, Output, output_of
from testbed.product import Webhook
from testbed.registration import OWN_NAMESPACE

CHART = Path(__file__).parents[1] / "charts" / "fraction-injector"
RELEASE = "fraction-injector"
CONFIGURATION = "MutatingWebhookConfiguration"
ADMISSION = "admissionregistration.k8s.io/v1"
HELM_S = 400
"""A machine may be busy with much else."""

Values = Mapping[str, Any]


class Helm:
    """Helm as the administrator of a cluster, in the product's own namespace.

    Args:
        cluster: Whose kubeconfig and helm are used.
        folder: For Helm's own files and the values.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder

    def run(self, *arguments: str) -> Output:
        """Run helm; the caller looks at its exit code."""
        home = {"KUBECONFIG": str(self._cluster.kubeconfig), "HOME": str(self._folder)}
        environment = {**home, **WITHOUT_GARBAGE_COLLECTION}
        helm = str(self._cluster.home.binaries / "helm")
        return output_of([helm, f"--namespace={OWN_NAMESPACE}", *arguments], environment, seconds=HELM_S)

    def values(self, values: Values) -> str:
        """Write values into a file, with an image, and return the option that names it."""
        file = self._folder / "values.json"
        image = {"repository": "registry.example.com/fraction-injector", **values.get("image", {})}
        file.write_text(json.dumps({**values, "image": image}))
        return f"--values={file}"

    def apply(self, values: Values, chart: Path = CHART) -> str:
        """Install or upgrade the release and return what Helm tells the admin."""
        ended = self.run("upgrade", "--install", RELEASE, str(chart), self.values(values))
        assert (ended.code, ended.stderr) == (0, ""), ended.stderr
        return ended.stdout

    def uninstall(self) -> None:
        """Remove the release."""
        assert self.run("uninstall", RELEASE).code == 0

    def manifest(self, values: Values) -> str:
        """What the chart renders for the release, CRDs included; nothing of `helm test`."""
        given = self.values(values).removeprefix("--values=")
        return _manifest(str(self._cluster.home.binaries / "helm"), Path(given).read_text())

    def rendered(self, values: Values) -> list[Object]:
        """The same as objects."""
        return objects_of(self.manifest(values))


@cache
def _manifest(helm: str, values: str) -> str:
    """Render the chart once for each text of values: many tests look at what the same values make."""
    of_release = ("--include-crds", "--skip-tests")
    command = [helm, "template", RELEASE, str(CHART), f"--namespace={OWN_NAMESPACE}", *of_release]
    environment = {"HOME": "/nonexistent", **WITHOUT_GARBAGE_COLLECTION}
    ended = output_of([*command, "--values=-"], environment, stdin=values, seconds=HELM_S)
    assert (ended.code, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout


def objects_of(manifest: str) -> list[Object]:
    """The objects of a manifest, in their order; libyaml reads them ten times as fast as PyYAML itself."""
    return [obj for obj in yaml.load_all(manifest, Loader=yaml.CSafeLoader) if obj]


def elsewhere(webhook: Webhook) -> dict[str, Any]:
    """Values for a webhook process outside of the cluster: only it decides, no controller runs."""
    return {
        "webhook": {"url": webhook.url, "caBundle": base64.b64encode(webhook.ca_pem).decode()},
        "tls": {"mode": "existing-secret"},
        "controller": {"enabled": False},
    }

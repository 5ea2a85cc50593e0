"""Known sidecars: if a pod has several containers, a label never chooses one of these.

They are known by the names and images that their projects give them. A name that is not specific is listed
with an image, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec

MAX_NAME, MAX_IMAGE = 63, 256
"""Maximum characters of a known sidecar; Kubernetes allows no longer name."""


class Sidecar(msgspec.Struct, frozen=True, gc=False):
    """Shell patterns of a sidecar's name and image; if both are set, both must match."""

    name: str | None = None
    image: str | None = None

    def is_one(self, name: str, image: str) -> bool:
        """Whether a container with this name and image is such a sidecar."""
        return (self.name is None or fnmatchcase(name, self.name)) and (
            self.image is None or fnmatchcase(image, self.image)
        )


KNOWN_SIDECARS = (
    # Service meshes.
    *map(Sidecar, ("istio-proxy", "linkerd-proxy", "consul-dataplane")),
    *(Sidecar(image="*istio/proxyv2*"), Sidecar("envoy", "*envoy*")),
    # Secrets and identities.
    *map(Sidecar, ("vault-agent", "bao-agent", "spiffe-helper")),
    # Workflows and builds.
    *map(Sidecar, ("svc-[0-9]*", "jnlp", "dind", "flyte-copilot-*", "git-sync")),
    *(Sidecar(image=image) for image in ("*argoexec*", "*gitlab-runner-helper*")),
    Sidecar("agent", "*buildkite/agent*"),
    # Serving, training and notebooks.
    *map(Sidecar, ("queue-proxy", "seldon-container-engine", "routing-proxy", "autoscaler")),
    *map(Sidecar, ("metrics-logger-and-collector", "tensorboard")),
    Sidecar("agent", "*kserve/agent*"),
    # Applications' own runtimes and gateways.
    *map(Sidecar, ("daprd", "kube-rbac-proxy", "oauth-proxy", "oauth2-proxy", "cloud-sql-proxy")),
    *map(Sidecar, ("cloudsql-proxy", "fluid-fuse*")),
    Sidecar("tailscale", "*tailscale*"),
    # Telemetry.
    *map(Sidecar, ("otc-container", "jaeger-agent", "xray-daemon", "datadog-agent", "fluent-bit")),
    *map(Sidecar, ("fluentbit", "fluentd", "filebeat", "promtail", "config-reloader")),
    *(Sidecar(image="*opentelemetry-collector*"), Sidecar("vector", "*/vector:*")),
    # Generic names: Airflow's, Kuma's, Tekton's, GKE's for Cloud Storage.
    *map(Sidecar, ("sidecar", "*-sidecar", "sidecar-*")),
)


def is_sidecar(name: str, image: str | None, further: Sequence[Sidecar]) -> bool:
    """Whether a container is a known sidecar, or one that the policy adds (`further`)."""
    image = image or ""
    if len(name) > MAX_NAME or len(image) > MAX_IMAGE:
        return False
    return any(each.is_one(name, image) for each in (*KNOWN_SIDECARS, *further))

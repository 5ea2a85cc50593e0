"""The policies and figures of webhooks and controllers, from their metrics through the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import quote

from prometheus_client.parser import text_string_to_metric_families

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer, transport_cause
from doctor.objects import Json, component
from doctor.seen import Figures, ServingPod
from service.metrics import POLICY_INFO, POLICY_SINCE

SERVING = ("webhook", "controller")
"""Components whose processes decide by the policies. An agent reads them only in a short-lived process."""
LEADING = "fraction_injector_leading"
CERTIFICATE_ENDS = "fraction_injector_certificate_expiry_timestamp_seconds"
FIGURES = {
    "fraction_injector_gpus": "gpus",
    "fraction_injector_slices_capacity": "slices",
    "fraction_injector_slices_free": "free",
    "fraction_injector_waiting_slices": "waiting",
    "fraction_injector_cards": "cards",
}
"""Metrics of the leading controller, and the fields of `Figures`."""
ANSWER_SECONDS = 5.0
MAX_PODS = 200
"""Pods of an installation that are queried."""


async def read_processes(
    api: ApiServer, namespace: str, release: str, pods: Iterable[Json]
) -> tuple[ServingPod, ...]:
    """Query the running or starting pods of webhook and controller.

    Requires the right to get `pods/proxy`.

    Raises:
        ApiError: the right is missing.
    """
    serving = [pod for pod in pods if _serves(pod, release)]
    serving.sort(key=lambda pod: (component(pod), pod["metadata"]["name"]))
    return tuple(await asyncio.gather(*(_ask(api, namespace, pod) for pod in serving[:MAX_PODS])))


def _serves(pod: Json, release: str) -> bool:
    part = component(pod)
    is_ours = part in SERVING and pod["metadata"]["name"].startswith(f"{release}-{part}-")
    return is_ours and pod["status"].get("phase") in {"Pending", "Running"}


async def _ask(api: ApiServer, namespace: str, pod: Json) -> ServingPod:
    name, phase = pod["metadata"]["name"], pod["status"]["phase"]
    ports = (port for container in pod["spec"]["containers"] for port in container.get("ports") or ())
    port = next((port["containerPort"] for port in ports if port.get("name") == "health"), None)
    if phase != "Running" or port is None:
        why = f"the pod is {phase}" if port is not None else "it has no port named health"
        return ServingPod(name, component(pod), problem=why)
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}:{port}/proxy/metrics"
    try:
        text = await api.request("GET", path, seconds=ANSWER_SECONDS, accept="text/plain")
        return _of_metrics(pod, text.decode())
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            raise
        return ServingPod(name, component(pod), problem=f"no answer: {error}")
    except (ValueError, *TRANSPORT_ERRORS) as error:
        return ServingPod(name, component(pod), problem=f"no answer: {transport_cause(error)}")


def _of_metrics(pod: Json, text: str) -> ServingPod:
    """Read a process's policies and figures from its metrics.

    Raises:
        ValueError: these are not metrics.
    """
    digest = None
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == POLICY_INFO:
                digest = sample.labels.get("digest")
            elif not sample.labels or sample.labels.keys() == {"driver"}:
                values[sample.name] = values.get(sample.name, 0) + sample.value
    return ServingPod(
        pod["metadata"]["name"],
        component(pod),
        digest,
        values.get(POLICY_SINCE),
        problem=None if digest is not None else "it serves no policies",
        certificate_ends=values.get(CERTIFICATE_ENDS),
        figures=_figures(values) if values.get(LEADING) else None,
    )


def _figures(values: dict[str, float]) -> Figures:
    return Figures(**{field: int(values[name]) for name, field in FIGURES.items() if name in values})

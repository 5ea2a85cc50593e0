"""Quotas on a real control plane, against a tenant who creates copies of an injected pod in parallel."""

from concurrent.futures import ThreadPoolExecutor

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod

CLIENTS, COPIES, SLICES = 8, 60, 8


def copy_of(stored, name):
    """What `kubectl get -o yaml` and sed make of a pod."""
    kept = {key: stored["metadata"][key] for key in ("labels", "annotations")}
    spec = {key: value for key, value in stored["spec"].items() if key != "nodeName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **kept}, "spec": spec}


def test_parallel_copies_of_an_injected_pod_stay_within_the_quota(nodes, namespace, serve, control_plane):
    api = control_plane.api
    nodes(*[GpuNode(gpus=8, memory="2Ti", cpu="1000")] * 4)
    serve(f"quotas: {{namespaces: {{{namespace}: {{slices: {SLICES}}}}}}}")
    stored = api.create(labelled_pod("first", "0.125"), namespace)

    def refusal(pod):
        return api.refusal(pod, namespace, dry_run=False)

    with ThreadPoolExecutor(CLIENTS) as clients:
        copies = [copy_of(stored, f"copy-{number}") for number in range(COPIES)]
        refused = [*filter(None, clients.map(refusal, copies))]
    assert len(api.list("Pod", namespace)) == COPIES + 1 - len(refused) <= SLICES
    assert all(f'quota of namespace "{namespace}"' in text for text in refused)

    # On a slow machine some were refused because they waited too long for an answer.
    last = iter(range(1000))
    said = lambda: refusal(labelled_pod(f"last-{next(last)}", "0.125"))  # noqa: E731
    eventually(lambda: f"{SLICES} of {SLICES} slices are used" in said(), "the quota is full")
    assert len(api.list("Pod", namespace)) == SLICES

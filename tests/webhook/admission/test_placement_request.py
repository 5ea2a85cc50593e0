"""What the ledger is asked for a pod."""

from kube.scheduling import Toleration
from tests.webhook.support import Webhook, container, pod, policies
from webhook.placing.placer import LedgerPlacer


def request_of(monkeypatch, found, policy_set=None, **review):
    """The placement request that a pod's review puts to the ledger."""
    asked, place = [], LedgerPlacer.place
    monkeypatch.setattr(LedgerPlacer, "place", lambda placer, ask: asked.append(ask) or place(placer, ask))
    Webhook(policy_set).decide(found, **review)
    [ask] = asked
    return ask


def test_requests_are_added_up_as_the_scheduler_does_and_what_cannot_decide_is_left_out(monkeypatch):
    """An amount of zero excludes no node, and Kubernetes itself denies names that are too long."""
    requests = {"cpu": "1500m", "memory": "1Gi", "rdma/hca": "1", "example.com/none": "0"}
    resources = {"requests": requests | {f"example.com/{'x' * 400}": "1"}}
    containers = [container(name, resources=resources) for name in ("task", "other")]
    ask = request_of(monkeypatch, pod(containers=containers))
    assert (ask.share.cpu_milli, ask.share.memory_bytes) == (3000, 2 * 2**30)
    assert ask.share.extended == (("rdma/hca", 2),)


def test_the_policys_tolerations_count_in_addition_to_the_pods(monkeypatch):
    policy_set = policies("tolerations: [{key: gpu, operator: Exists}]")
    own = [{"key": "own", "operator": "Equal", "value": "yes"}]
    ask = request_of(monkeypatch, pod(tolerations=own), policy_set)
    assert ask.demands.constraints.tolerations == (
        Toleration("own", "Equal", "yes"),
        Toleration("gpu", "Exists"),
    )

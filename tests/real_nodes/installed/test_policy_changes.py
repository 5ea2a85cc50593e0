"""Policies that change while pods are created: in force at every webhook soon, and no pod is refused."""

import itertools
import re

import pytest

from policies.loading.sources import LOCK_FILE
from testbed import plain_http
from testbed.chart import RELEASE
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.effort import by_turns
from tests.real_nodes.installation import VALUES
from tests.real_nodes.load import Load
from tests.real_nodes.pods import WORK

DELIVERY_S = 120
"""More than a kubelet takes that nobody wakes up: it looks once a minute and a bit."""
HALVES = {"0.125": 1, "0.500": 4}


def custom(variable):
    return {**VALUES["limiters"], "site": {"env": {variable: "{memory_mib}"}}}


KINDS = {
    "another limiter": {"policies": {"default": {"limiter": "nvidia-driver"}}},
    "a limiter of one's own": {"policies": {"default": {"limiter": "site"}}, "limiters": custom("SITE_MIB")},
    "its variable": {"policies": {"default": {"limiter": "site"}}, "limiters": custom("SITE_MEMORY")},
    "a policy that comes": {"policies": {"default": {}, "team": {"namespaces": [WORK], "limiter": "none"}}},
    "a queue": {
        "policies": {"default": {}},
        "queues": {"night": {"namespaces": [WORK], "limiter": "none", "fractions": HALVES}},
    },
}
CHANGES = by_turns("real_nodes", usual=2, full=2 * len(KINDS))
"""The first kinds, as the next one is what follows them; in full each, also after the last."""


@pytest.fixture
def digests(installation, cluster):
    """The policies in force in each webhook, by its pod's name."""
    forwards = {pod.name: cluster.port_forward(pod.address, 8080) for pod in installation.pods("webhook")}

    def look():
        found = {}
        for name, (_, url) in forwards.items():
            text = plain_http.get(f"http://{url.rpartition('/')[2]}/metrics").text
            [digest] = re.findall(r'^fraction_injector_policy_info\{digest="(.+)"\} 1.0', text, re.MULTILINE)
            found[name] = digest
        return found

    yield look
    for process, _ in forwards.values():
        process.stop()


@pytest.mark.timeout(120 + 45 * CHANGES, func_only=True)
def test_no_create_fails_while_policies_change_in_every_way(installation, cluster, digests):
    pods, before = installation.pods("webhook"), set(digests().values())
    with Load(cluster.api, WORK) as load:
        for kind, values in itertools.islice(itertools.cycle(KINDS.items()), CHANGES):
            installation.helm.apply({**VALUES, **values})
            eventually(lambda old=before: not old & set(digests().values()), kind, DELIVERY_S)
            before = eventually(lambda: in_force(installation, digests()), kind)
        installation.helm.apply(VALUES)
        eventually(lambda: not before & set(digests().values()), "all is as before", DELIVERY_S)
    assert load.failed(labelled=True) == []
    assert load.failed(labelled=False) == []
    after = installation.pods("webhook")
    assert {(pod.uid, pod.restarts) for pod in after} == {(pod.uid, pod.restarts) for pod in pods}


def in_force(installation, served):
    """The one digest that all webhooks serve, if it is of the policies that the chart wrote last."""
    stored = installation.cluster.api.get("ConfigMap", f"{RELEASE}-policies", OWN_NAMESPACE)
    digests = set(served.values())
    is_newest = all(digest.endswith(f".{stored['data'][LOCK_FILE]}") for digest in digests)
    return digests if len(digests) == 1 and is_newest else None


def test_the_controller_touched_the_webhooks_and_itself(installation):
    stored = installation.cluster.api.get("ConfigMap", f"{RELEASE}-policies", OWN_NAMESPACE)
    version = stored["metadata"]["resourceVersion"]

    def marks():
        pods = [pod for component in ("controller", "webhook") for pod in installation.objects(component)]
        return {pod["metadata"]["annotations"].get("clearml-injector/policies") for pod in pods}

    eventually(lambda: marks() == {version}, "all pods carry the version of the policies")

"""Every denial is one line that ends with what to do, whatever text of the pod it quotes."""

import re

import pytest

from tests.webhook.support import Webhook, container, decide, pod, policies
from webhook.admission.denial import END_KEPT, MESSAGE_LIMIT, Denial, Reason

VERBS = (
    "use|remove|set|name|wait|ask|try|request|correct|change|fix|add|shorten|split|label|rename|list|pass|"
    "combine|mount|create|recreate|delete|keep|make"
)
ADVICE = re.compile(rf"[:;,] (or |and )?({VERBS})\b[^:;]*$")
LABEL = "clearml-injector/fraction"

DENIED = {
    "label": pod(fraction="0.9"),
    "label that means another": pod(fraction="0.5"),
    "container unknown": pod(metadata={"annotations": {"clearml-injector/container": "nobody"}}),
    "container ambiguous": pod(containers=[container(name="a"), container(name="b")]),
    "several": pod(containers=[container(name=name, limits={"nvidia.com/gpu": 1}) for name in ("a", "b")]),
    "amount": pod(containers=[container(limits={"nvidia.com/gpu": 3})]),
    "clearml amount": pod(containers=[container(limits={"clear.ml/fraction-1": "0.25"})]),
    "index": pod(containers=[container(limits={"nvidia.com/gpu-3": 4})]),
    "mig": pod(containers=[container(limits={"nvidia.com/mig-1g.10gb": 1})]),
    "privileged": pod(containers=[container(securityContext={"privileged": True})]),
    "host PID": pod(hostPID=True),
    "host path": pod(volumes=[{"name": "dev", "hostPath": {"path": "/dev"}}]),
    "CDI": pod(metadata={"annotations": {"cdi.k8s.io/gpu": "nvidia.com/gpu=all"}}),
    "no node": pod(nodeSelector={"pool": "nowhere"}),
    "no containers": pod(containers=[]),
    "unreadable": pod(nodeSelector=[]),
    "requests": pod(containers=[container(limits={"cpu": "much"})]),
}


@pytest.mark.parametrize("name", DENIED)
def test_a_denial_ends_with_what_to_do(name):
    message = decide(DENIED[name]).message
    assert ADVICE.search(message), message
    assert len(message) <= MESSAGE_LIMIT


def test_a_long_message_is_cut_where_it_quotes_and_keeps_what_to_do():
    message = Denial.of(Reason.LABEL, f'container "{"x" * 500}" is wrong: use another').message
    assert len(message) == MESSAGE_LIMIT
    assert message.startswith('container "xxx')
    assert message.endswith('x" is wrong: use another')
    assert message[MESSAGE_LIMIT - END_KEPT - 3 :].startswith("...")
    long_name = pod(metadata={"annotations": {"clearml-injector/container": "n" * 300}})
    assert decide(long_name).message.endswith("use train")


@pytest.mark.parametrize(
    ("quota", "taken", "asked", "expected"),
    [
        ("slices: 7", 1, "0.500", "4 of 7 slices are used, 4 more requested: wait, use a smaller fraction,"),
        ("maxPods: 1", 1, "0.125", "1 of 1 pods are used, 1 more requested: wait until one ends, or"),
        ("slices: 2", 0, "0.500", "0 of 2 slices are used, 4 more requested: use a smaller fraction, or"),
        ("slices: 0", 0, "0.125", " is 0, which allows no labelled pods: use another, or"),
        ("maxPods: 0", 0, "0.125", " is 0, which allows no labelled pods: use another, or"),
    ],
)
def test_what_helps_against_a_quota_depends_on_what_it_counts(quota, taken, asked, expected):
    webhook = Webhook(policies(f"quotas: {{namespaces: {{team: {{{quota}}}}}}}"))
    for number in range(taken):
        assert webhook.decide(pod(), uid=f"taken-{number}").allowed
    decided = webhook.decide(pod(fraction=asked), uid="last")
    assert decided.code == "over-quota"
    assert expected in decided.message
    assert decided.message.endswith("ask the admin for more") or decided.message.endswith("or ask the admin")

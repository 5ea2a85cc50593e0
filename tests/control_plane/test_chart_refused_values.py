"""Values that the chart refuses, by its schema or because they are at odds, and what it says of them."""

import pytest

from testbed.chart import CHART, RELEASE

SCHEMA = "Error: values don't meet the specifications of the schema(s) in the following chart(s):\n"

WRONG = {
    "a word for a number": (
        {"webhook": {"replicas": "two"}},
        "at '/webhook/replicas': got string, want integer",
    ),
    "a misspelt key": (
        {"webhook": {"replica": 3}},
        "at '/webhook': additional properties 'replica' not allowed",
    ),
    "a misspelt part": ({"webhok": {}}, "at '': additional properties 'webhok' not allowed"),
    "an unknown mode": (
        {"tls": {"mode": "auto"}},
        "at '/tls/mode': value must be one of 'self-managed', 'cert-manager', 'existing-secret'",
    ),
    "a port that needs root": (
        {"webhook": {"port": 443}},
        "at '/webhook/port': minimum: got 443, want 1,025",
    ),
    "no block": (
        {"networkPolicy": {"healthBlocks": []}},
        "at '/networkPolicy/healthBlocks': minItems: got 0, want 1",
    ),
    "a misspelt policy key": (
        {"policies": {"default": {"limitr": "none"}}},
        "at '/policies/default': additional properties 'limitr' not allowed",
    ),
    "slices that no GPU has": (
        {"policies": {"default": {"slicesPerGpu": 3}}},
        "at '/policies/default/slicesPerGpu': value must be one of 2, 4, 8, 16",
    ),
    "a queue's key that is ours nor ClearML's": (
        {"queues": {"half": {"maxPods": 3}}},
        "at '/queues/half': additional properties 'maxPods' not allowed",
    ),
    "a label that YAML takes for a number": (
        {"queues": {"half": {"templateOverrides": {"labels": {"clearml-injector/fraction": 0.5}}}}},
        "at '/queues/half/templateOverrides/labels/clearml-injector~1fraction': got number, want string",
    ),
    "no pull secret's name": (
        {"imagePullSecrets": ["registry"]},
        "at '/imagePullSecrets/0': got string, want object",
    ),
    "too late a stop": (
        {"webhook": {"stopDelaySeconds": 60}},
        "at '/webhook/stopDelaySeconds': maximum: got 60, want 15",
    ),
}


@pytest.mark.parametrize("values", WRONG.values(), ids=WRONG)
def test_wrong_values_are_refused_and_named(helm, values):
    given, message = values
    refused = helm.run("template", RELEASE, str(CHART), helm.values(given))
    assert refused.code == 1
    assert refused.stderr.strip() == f"{SCHEMA}{RELEASE}:\n- {message}"


AT_ODDS = {
    "a CA that would be replaced": (
        {"webhook": {"caBundle": "QUJD"}},
        "webhook.caBundle is for tls.mode existing-secret: in other modes the CA is injected",
    ),
    "another's certificate": (
        {"webhook": {"url": "https://127.0.0.1:8443/mutate"}},
        "webhook.url: a webhook outside the cluster has its own certificate: use tls.mode existing-secret",
    ),
    "two names": (
        {"policies": {"other": {"resources": {"name": "example.com/card-{index}"}}}},
        "policies: resources.name differs between policies of mode per-gpu (nvidia.com/gpu-{index}, example",
    ),
    "no Secret": (
        {"tls": {"mode": "existing-secret"}},
        "tls.existingSecret: name a Secret with tls.crt, tls.key and ca.crt",
    ),
    "an unknown limiter": (
        {"policies": {"default": {"limiter": "hami"}}},
        'limiter "hami" is not defined: use clearml-image, hami-core, none, nvidia-driver',
    ),
    "no image": (
        {"image": {"repository": ""}},
        "image.repository: build the image from the Dockerfile, push it, and name it here",
    ),
    "nothing that limits": (
        {"policies": {"default": {"limits": {"from": "agent"}}}},
        (
            "policies.default.limits.from: agent needs agent.enabled, because nothing else would limit its"
            " pods"
        ),
    ),
    "some cards whole in a pool": (
        {
            "agent": {"enabled": True, "divide": ["0"]},
            "policies": {"default": {"resources": {"mode": "pooled"}}},
        },
        (
            "agent.divide: some cards stay whole only in mode per-gpu of agent.policy: a pool has one name"
            " for all cards"
        ),
    ),
    "a card that no node can have": (
        {"agent": {"enabled": True, "divide": ["0,1"]}},
        "'0,1' does not match pattern",
    ),
    "idle shares of which no kernel is seen": (
        {"agent": {"enabled": True, "driverMetrics": True}, "policies": {"default": {"idleAfter": "1h"}}},
        "policies.default.idleAfter needs agent.enabled and agent.podMetrics, because only that sees",
    ),
    "claims that nobody looks at": (
        {
            "secondLock": {"enabled": False},
            "policies": {"nics": {"allow": {"deviceClasses": ["rdma.example"]}}},
        },
        "policies.nics.allow.deviceClasses needs secondLock.enabled, because only that checks the class",
    ),
    "claims that nobody serves": (
        {
            "agent": {"enabled": True, "offer": "device-plugin"},
            "policies": {"default": {"resources": {"mode": "dra"}}},
        },
        "policies.default.resources.mode: dra needs agent.enabled and agent.offer: dra, because only that",
    ),
    "a place that the scheduler chooses": (
        {"agent": {"enabled": True}, "policies": {"default": {"place": "spread"}}},
        (
            "policies.default.place is not for mode dra, which auto means in this cluster: leave it out, or"
            " set resources.mode: per-gpu"
        ),
    ),
    "slices that a claim does not have": (
        {"agent": {"enabled": True}, "policies": {"default": {"env": {"X": "{slices}"}}}},
        "policies.default.env with {index} {slices} or {percent} is not for mode dra",
    ),
    "a card that is given away twice": (
        {"agent": {"enabled": True, "offer": "dra"}, "devicePlugin": {"enabled": True}},
        "devicePlugin.enabled: the agent offers the cards to claims",
    ),
    "an agent that limits nobody": (
        {"agent": {"enabled": True}, "policies": {"other": {"limits": {"from": "agent"}}}},
        'policies.other.limits.from: agent, but admission in agent.policy "default", with which the agent',
    ),
    "an agent that limits by other slices": (
        {
            "agent": {"enabled": True},
            "policies": {
                "default": {"limits": {"from": "agent"}},
                "other": {"limits": {"from": "agent"}, "slicesPerGpu": 4},
            },
        },
        'policies.other.slicesPerGpu: 4, but 8 in agent.policy "default", with which the agent limits',
    ),
    "an unknown policy of the agent": (
        {"agent": {"enabled": True, "policy": "other"}},
        'agent.policy: "other" is not defined: use one of default',
    ),
    "no controller to ask": (
        {"controller": {"enabled": False}},
        (
            "controller.enabled: a webhook in the cluster needs the controller; to install none, set"
            " webhook.url"
        ),
    ),
}


def test_claims_are_refused_on_a_kubernetes_that_cannot_share_a_device(helm):
    values = helm.values(
        {
            "agent": {"enabled": True, "offer": "dra"},
            "policies": {"default": {"resources": {"mode": "dra"}}},
        }
    )
    refused = helm.run("template", RELEASE, str(CHART), "--kube-version=1.33.9", values)
    assert (
        "policies.default.resources.mode: dra needs Kubernetes 1.36, or 1.34 with the feature"
        in refused.stderr
    )
    assert helm.run("template", RELEASE, str(CHART), "--kube-version=1.36.0", values).code == 0


@pytest.mark.parametrize("values", AT_ODDS.values(), ids=AT_ODDS)
def test_values_at_odds_are_refused_with_what_to_do(helm, values):
    given, message = values
    refused = helm.run("template", RELEASE, str(CHART), helm.values(given))
    assert refused.code == 1
    assert message in refused.stderr


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"commonLabels": {"app.kubernetes.io/name": "x"}}, "app.kubernetes.io/name"),
        ({"webhook": {"podLabels": {"helm.sh/chart": "x"}}}, "helm.sh/chart"),
        ({"webhook": {"probes": {"livenessprobe": {}}}}, "probes"),
        ({"controller": {"extraArgs": ["stop"]}}, "extraArgs"),
        ({"controller": {"pageLinks": {"Grafana": "javascript:alert(1)"}}}, "pageLinks"),
        ({"logging": {"level": "debug"}}, "level"),
        ({"monitoring": {"serviceMonitor": {"interval": "often"}}}, "interval"),
        ({"webhook": {"service": {"ipFamilies": ["IPv5"]}}}, "ipFamilies"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_the_schema(helm, values, where):
    refused = helm.run("template", RELEASE, str(CHART), helm.values(values))
    assert refused.code != 0
    assert where in refused.stderr

"""Values that the chart refuses, by its schema or because they are at odds, and what it says of them."""

import pytest
import yaml

from policies.loading.loader import parse_policies
from testbed.chart import CHART, RELEASE

LABELLED = "queues: {q: {templateOverrides: {labels: {clearml-injector/fraction: %s}}}}"
MANY = [f"/opt/{number}" for number in range(46)]
AGENT = "agent: {enabled: true}\n"
HALF = "{templateOverrides: {labels: {clearml-injector/fraction: '0.500'}}}"
BY_SCHEMA = [
    ("webhook: {replicas: two}", "at '/webhook/replicas': got string, want integer"),
    ("tls: {mode: auto}", "at '/tls/mode': value must be one of 'self-managed', 'cert-manager', "),
    ("policies: {default: {limitr: none}}", "at '/policies/default': additional properties 'limitr' not"),
    ("queues: {half: {maxPods: 3}}", "at '/queues/half': additional properties 'maxPods' not allowed"),
    (LABELLED % "0.5", "labels/clearml-injector~1fraction': got number, want string"),
    ("controller: {pageLinks: {Grafana: 'javascript:alert(1)'}}", "pageLinks"),
    ("agent: {enabled: true, divide: ['0,1']}", "'0,1' does not match pattern"),
]
AT_ODDS = [
    (LABELLED % "half", '"half" is not allowed'),
    (f"policies: {{default: {{fractions: {{}}}}}}\nqueues: {{q: {HALF}}}", '"0.500" is not'),
    ("basePodTemplate: {labels: {clearml-injector/fraction: '0.5'}}", "0.5"),
    ("queues: {q: {policy: gold}}", '"gold" is not defined: use one of default'),
    ("queues: {q: {limiter: hami}}", '"hami" is not defined: use clearml-image, hami-core, none, nvidia-d'),
    ("policies: {default: {fractions: {'0.500': 3}}}", "3 slices are not what the text says"),
    ("policies: {default: {fractions: {'1.2': 10}}}", "is neither a part of one GPU nor whole GPUs"),
    ("policies: {default: {fractions: {50%: 4}}}", "is not a plain decimal number"),
    ("queues: {q: {fractions: {'0.250': 4}}}", "queues.q.fractions"),
    (f"queues: {{gpu_half: {HALF}, gpu-half: {HALF}}}", 'both become the label "gpu-half"'),
    ("policies: {default: {namespaces: [team, team]}}", '"team" belongs to policy "default" already'),
    ("policies: {default: {}, other: {resources: {name: 'example.com/gpu-{index}'}}}", "use one name"),
    ("webhook: {caBundle: QUJD}", "webhook.caBundle is for tls.mode existing-secret: in other modes the"),
    ("webhook: {url: 'https://127.0.0.1:8443/mutate'}", "own certificate: use tls.mode existing-secret"),
    ("tls: {mode: existing-secret}", "tls.existingSecret: name a Secret with tls.crt, tls.key and ca.crt"),
    ("image: {repository: ''}", "image.repository: build the image from the Dockerfile, push it, and name"),
    ("controller: {enabled: false}", "a webhook in the cluster needs the controller; to install none, set"),
    (
        "policies: {default: {limits: {from: agent}}}",
        "policies.default.limits.from: agent needs agent.enabled, because nothing else would limit its pods",
    ),
    (
        "agent: {enabled: true, divide: ['0']}\npolicies: {default: {resources: {mode: pooled}}}",
        "agent.divide: some cards stay whole only in mode per-gpu of agent.policy: a pool has one name",
    ),
    (
        "agent: {enabled: true}\npolicies: {default: {idleAfter: 1h}}",
        "policies.default.idleAfter needs agent.enabled and agent.podMetrics, because only that sees",
    ),
    (
        "secondLock: {enabled: false}\npolicies: {nics: {allow: {deviceClasses: [rdma.example]}}}",
        "policies.nics.allow.deviceClasses needs secondLock.enabled, because only that checks the class",
    ),
    (
        "agent: {enabled: true, offer: device-plugin}\npolicies: {default: {resources: {mode: dra}}}",
        "policies.default.resources.mode: dra needs agent.enabled and agent.offer: dra, because only that",
    ),
    (
        "agent: {enabled: true}\npolicies: {default: {place: spread}}",
        "policies.default.place is not for mode dra, which auto means in this cluster: leave it out, or set",
    ),
    (
        "agent: {enabled: true}\npolicies: {default: {env: {X: '{slices}'}}}",
        "policies.default.env with {index} {slices} or {percent} is not for mode dra",
    ),
    (
        "agent: {enabled: true, offer: dra}\ndevicePlugin: {enabled: true}",
        "devicePlugin.enabled: the agent offers the cards to claims",
    ),
    (
        "agent: {enabled: true}\npolicies: {other: {limits: {from: agent}}}",
        'policies.other.limits.from: agent, but admission in agent.policy "default", with which the agent',
    ),
    (
        AGENT + "policies: {default: &a {limits: {from: agent}}, o: {<<: *a, slicesPerGpu: 4}}",
        'policies.o.slicesPerGpu: 4, but 8 in agent.policy "default", with which the agent limits',
    ),
    ("agent: {enabled: true, policy: other}", 'agent.policy: "other" is not defined: use one of default'),
    (
        f"agent: {{enabled: true}}\npolicies: {{default: {{protectedHostPaths: {MANY}}}}}",
        "policies.default.protectedHostPaths: 51 with those of agent, of at most 50: leave some out",
    ),
]
RIGHT = [
    f"queues: {{gpu_half: {HALF}}}",
    "policies: {default: {fractions: {'0.125': 1, '1.000': 8, '2': 16}}}\n" + LABELLED % "'2'",
    f"queues: {{q: {{namespaces: [team], limiter: none, {HALF[1:]}}}",
    "policies: {default: {quotas: {namespaces: {shut: {slices: 0}}}}}",
]


@pytest.fixture
def render(helm):
    return lambda text: helm.run("template", RELEASE, str(CHART), helm.values(yaml.safe_load(text)))


@pytest.mark.parametrize(("values", "said"), [*BY_SCHEMA, *AT_ODDS])
def test_values_are_refused_with_what_is_wrong_or_what_to_do(render, values, said):
    refused = render(values)
    assert refused.code == 1
    assert said in refused.stderr


def test_claims_are_refused_on_a_kubernetes_that_cannot_share_a_device(helm):
    dra = {"enabled": True, "offer": "dra"}
    values = helm.values({"agent": dra, "policies": {"default": {"resources": {"mode": "dra"}}}})
    refused = helm.run("template", RELEASE, str(CHART), "--kube-version=1.33.9", values)
    said = "policies.default.resources.mode: dra needs Kubernetes 1.36, or 1.34 with the feature"
    assert said in refused.stderr
    assert helm.run("template", RELEASE, str(CHART), "--kube-version=1.36.0", values).code == 0


@pytest.mark.parametrize("values", RIGHT)
def test_what_is_right_renders_and_the_product_takes_it(helm, values):
    rendered = helm.rendered(yaml.safe_load(values))
    [found] = [each["data"] for each in rendered if each["metadata"]["name"] == f"{RELEASE}-policies"]
    assert parse_policies({name: content.encode() for name, content in found.items()})

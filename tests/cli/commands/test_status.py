"""fraction-injector status, against an API server of a few lines that passes requests on to pods."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from certs.authority import make_authority
from cluster.kube_client import ApiError
from controller.policies.served_policies import WebhookPolicies
from ledger.messages import ServedPolicies
from policies.loading.loader import parse_policies
from service.metrics import PolicySince, policy_info, render
from tests.cli.running import run

NAMESPACE = "/api/v1/namespaces/gpu-fraction-injector"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpu-fraction-injector/leases/fraction-injector-controller"
WEBHOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fraction-injector"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/gpu-fraction-injector/endpointslices"
RENEWED = {
    "leaseDurationSeconds": 7,
    "renewTime": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
}
BUNDLE = base64.b64encode(make_authority(datetime.now(UTC)).certificate_pem).decode()
ENTRY = {"clientConfig": {"caBundle": BUNDLE}, "failurePolicy": "Fail"}
POLICIES = {"default.yaml": "kind: Policy\nname: default\n"}
DIGEST = parse_policies({name: text.encode() for name, text in POLICIES.items()}).digest
ENDS = (datetime.now(UTC) + timedelta(days=61, hours=1)).timestamp()
LEADER = """fraction_injector_leading 1.0
fraction_injector_gpus 35.0
fraction_injector_slices_capacity 280.0
fraction_injector_slices_used 261.0
fraction_injector_slices_free 19.0
fraction_injector_waiting_slices 12.0
"""
SINCE = datetime(2026, 11, 23, 5, 30, tzinfo=UTC)


def metrics(digest=DIGEST, digests=()):
    """What a process serves at /metrics, made by its own collectors."""
    registry = CollectorRegistry()
    registry.register(policy_info(lambda: digest))
    registry.register(PolicySince(lambda: SINCE.timestamp() if digest else None))
    webhooks = WebhookPolicies(lambda: 0.0)
    for number, each in enumerate(digests):
        webhooks.add(ServedPolicies(f"webhook-{number}", each))
    registry.register(webhooks)
    ends = f"fraction_injector_certificate_expiry_timestamp_seconds {ENDS}\n"
    return render(registry).decode() + ends + (LEADER if digests else "")


def pod(name, component="webhook", phase="Running", config_map="fraction-injector-policies"):
    ports = [{"name": "https", "containerPort": 8443}, {"name": "health", "containerPort": 8080}]
    return {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/component": component}},
        "spec": {
            "containers": [{"name": component, "ports": ports}],
            "volumes": [{"name": "tmp"}, {"name": "policies", "configMap": {"name": config_map}}],
        },
        "status": {"phase": phase},
    }


class Api:
    """Serves objects by path, and what each pod answers; all else is empty, or not there."""

    def __init__(self, answers, pods=None, policies=None, objects=None):
        pods = [pod(name, name.partition("-")[0]) for name in answers] if pods is None else pods
        policies = POLICIES if policies is None else policies
        self.answers = answers
        self.objects = {
            f"{NAMESPACE}/configmaps/fraction-injector-policies": {"data": policies},
            f"{NAMESPACE}/pods": {"items": pods},
            LEASE: {"metadata": {"name": "x"}, "spec": {"holderIdentity": "controller-a", **RENEWED}},
            WEBHOOK: {"metadata": {"name": "x"}, "webhooks": [ENTRY]},
            SLICES: {"items": [{"metadata": {"name": "x"}, "endpoints": [{"addresses": ["10.0.0.1"]}]}]},
        } | (objects or {})

    async def request(self, method, path, *, query=None, **_):
        assert method == "GET"
        name = path.removeprefix(f"{NAMESPACE}/pods/").removesuffix(":8080/proxy/metrics")
        if path == f"{NAMESPACE}/pods" and (query or {}).get("labelSelector", "").endswith("=agent"):
            return b'{"items": []}'
        found = self.objects.get(path, self.answers.get(name))
        if isinstance(found, Exception):
            raise found
        if isinstance(found, str):
            return found.encode()
        if found is None and query is None:
            raise ApiError(404, f"{path} not found")
        return json.dumps(found or {"items": []}).encode()

    async def close(self):
        pass


@pytest.fixture
def ask(monkeypatch):
    def call(api, *arguments):
        asked = []

        async def connect(*server):
            asked.append(server)
            return api

        monkeypatch.setattr("cluster.kube_client.connect", connect)
        ended = run("status", *arguments)
        return ended, asked

    return call


ALL = {
    "controller-a": metrics(digests=[DIGEST, DIGEST]),
    "controller-b": metrics(),
    "webhook-a": metrics(),
    "webhook-b": metrics(),
}


def line_of(ended, about):
    [line] = [line for line in ended.stdout.splitlines() if line.split()[1] == about]
    return " ".join(line.split())


def test_a_sound_installation_is_well_in_eight_lines(ask):
    ended, asked = ask(Api(ALL), "--context", "gpus", "--kubeconfig", "file")
    assert ended.returncode == 0, ended.output
    assert [" ".join(line.split()) for line in ended.stdout.splitlines()] == [
        "ok webhook 2 of 2 answer",
        "ok controller controller-a leads; 2 of 2 answer",
        "ok certificates the first one expires in 61 days",
        f"ok policies {DIGEST} are in force everywhere (controllers: 2, webhooks: 2)",
        "ok agents none are installed",
        "ok nodes none are held for their agent",
        "ok slices 19 of 280 slices are free for new pods, on 35 GPUs",
        "ok waiting pods wait for 12 slices",
    ]
    assert [(str(file), context) for file, context in asked] == [("file", "gpus")]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (metrics("0ld"), "it serves 0ld"),
        (metrics(None), "it serves no policies"),
        (TimeoutError(), "no answer: TimeoutError"),
        (ApiError(503, "error trying to reach service"), "error trying to reach service"),
        ("<html>", "no answer"),
    ],
    ids=["older", "none", "silent", "out of reach", "something else"],
)
def test_one_process_that_does_not_serve_the_policies_is_named(ask, other, expected):
    for name in ALL:
        ended, _ = ask(Api(ALL | {name: other}))
        assert ended.returncode == 1
        line = line_of(ended, "policies")
        assert line.startswith(f"failed policies pod {name} does not serve the policies: ")
        assert expected in line


def test_a_webhook_outside_of_the_cluster_is_known_by_what_it_tells_the_leader(ask):
    elsewhere = {"clientConfig": {"url": "https://elsewhere/mutate"}, "failurePolicy": "Fail"}
    outside = {WEBHOOK: {"metadata": {"name": "x"}, "webhooks": [elsewhere]}}
    ended, _ = ask(Api({"controller-a": metrics(digests=[DIGEST])}, objects=outside))
    assert ended.returncode == 0, ended.output
    ended, _ = ask(Api({"controller-a": metrics(digests=[DIGEST, "0ld"])}, objects=outside))
    assert ended.returncode == 1
    assert "webhooks serve other policies than the ConfigMap's: 0ld" in line_of(ended, "policies")
    ended, _ = ask(Api({"controller-a": metrics()}, objects=outside))
    assert (ended.returncode, line_of(ended, "policies")[:6]) == (1, "failed")


def test_json_is_the_same_lines_with_their_figures(ask):
    ended, _ = ask(Api(ALL | {"webhook-b": metrics("0ld")}), "-o", "json")
    assert ended.returncode == 1
    found = {line["about"]: line for line in json.loads(ended.stdout)}
    assert found["slices"]["facts"] == {"gpus": 35, "slices": 280, "used": 261, "free": 19}
    facts = found["policies"]["facts"]
    assert (found["policies"]["level"], facts["inForce"], facts["digest"]) == ("failed", False, DIGEST)
    assert facts["webhooksByPolicies"] == {DIGEST: 2}
    assert [each["digest"] for each in facts["served"]] == [DIGEST, DIGEST, DIGEST, "0ld"]
    assert facts["served"][0] == {
        "pod": "controller-a",
        "component": "controller",
        "digest": DIGEST,
        "since": "2026-11-23T05:30:00Z",
        "leads": True,
        "problem": None,
    }


def test_broken_policies_are_said_and_the_last_good_ones_are_not_those_of_the_config_map(ask):
    broken = {"default.yaml": "kind: Policy\nname: default\nlimitr: none\n"}
    ended, _ = ask(Api(ALL, policies=broken))
    assert ended.returncode == 1
    assert "the policies are broken: default.yaml:3: limitr: unknown key" in line_of(ended, "policies")


def test_pods_that_are_not_of_it_are_not_asked_and_those_that_start_are_named(ask):
    strangers = [pod("agent-a", "agent"), pod("other", config_map="others"), pod("gone", phase="Failed")]
    served = [pod("controller-a", "controller"), pod("webhook-a"), pod("webhook-b", phase="Pending")]
    ended, _ = ask(Api(ALL, [*strangers, *served]))
    assert ended.returncode == 1
    assert "pod webhook-b does not serve the policies: the pod is Pending" in line_of(ended, "policies")
    assert line_of(ended, "webhook") == "ok webhook 1 of 2 answer"


def test_without_a_right_what_needs_it_is_skipped_and_the_right_is_named(ask):
    ended, _ = ask(Api(ALL | {"webhook-a": ApiError(403, "pods/proxy is forbidden")}))
    assert ended.returncode == 0
    assert "skipped policies you lack the right to get configmaps, list pods and get pods/proxy" in line_of(
        ended, "policies"
    )
    assert line_of(ended, "slices").startswith("skipped")


def test_an_installation_that_is_not_there_is_a_failure(ask):
    gone = {path: ApiError(404, "none") for path in (WEBHOOK, LEASE)}
    named = f"{NAMESPACE}/configmaps/fraction-injector-policies"
    ended, _ = ask(Api({}, objects=gone | {named: ApiError(404, "none")}))
    assert ended.returncode == 1
    assert "name the installation by --namespace and --name" in line_of(ended, "policies")

"""fraction-injector status, against an API server of a few lines that passes requests on to pods."""

import json
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from cli.app import app
from cluster.kube_client import ApiError
from controller.policies.served_policies import WebhookPolicies
from ledger.messages import ServedPolicies
from policies.loading.loader import parse_policies
from service.metrics import PolicySince, policy_info, render

NAMESPACE = "/api/v1/namespaces/gpu-fraction-injector"
POLICIES = {"default.yaml": "kind: Policy\nname: default\n"}
DIGEST = parse_policies({name: text.encode() for name, text in POLICIES.items()}).digest
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
    leads = "fraction_injector_leading 1.0\n" if digests else ""
    return render(registry).decode() + leads


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
    """Serves the ConfigMap, the pods, and what each pod answers."""

    def __init__(self, answers, pods=None, policies=None):
        self.answers = answers
        self.pods = [pod(name, name.partition("-")[0]) for name in answers] if pods is None else pods
        self.policies = POLICIES if policies is None else policies

    async def request(self, method, path, *, query=None, seconds=None, accept=None):
        assert method == "GET"
        if path == f"{NAMESPACE}/configmaps/fraction-injector-policies":
            return json.dumps({"data": self.policies}).encode()
        if path == f"{NAMESPACE}/pods":
            return json.dumps({"items": self.pods}).encode()
        name = path.removeprefix(f"{NAMESPACE}/pods/").removesuffix(":8080/proxy/metrics")
        answer = self.answers.get(name, ApiError(404, f"{path} not found"))
        if isinstance(answer, Exception):
            raise answer
        return answer.encode()

    async def close(self):
        pass


@pytest.fixture
def ask(monkeypatch):
    def run(api, *arguments):
        asked = []

        async def connect(*server):
            asked.append(server)
            return api

        monkeypatch.setattr("cluster.kube_client.connect", connect)
        ended = CliRunner().invoke(app, ["status", *arguments])
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return ended, asked

    return run


ALL = {
    "controller-a": metrics(digests=[DIGEST, DIGEST]),
    "controller-b": metrics(),
    "webhook-a": metrics(),
    "webhook-b": metrics(),
}


def test_policies_that_all_serve_are_in_force_everywhere(ask):
    ended, asked = ask(Api(ALL), "--context", "gpus", "--kubeconfig", "file")
    assert ended.exit_code == 0, ended.output
    assert ended.stdout.splitlines()[0] == (
        f"policies {DIGEST} of ConfigMap gpu-fraction-injector/fraction-injector-policies are in force"
        " everywhere (controllers: 2, webhooks: 2)"
    )
    rows = [line.split() for line in ended.stdout.splitlines()[2:6]]
    assert rows[0] == ["controller-a", DIGEST, "2026-11-23T05:30:00Z", "leads"]
    assert rows[3] == ["webhook-b", DIGEST, "2026-11-23T05:30:00Z"]
    assert f"as reported to the leading controller: 2 serve {DIGEST}" in ended.stdout
    assert [(str(file), context) for file, context in asked] == [("file", "gpus")]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (metrics("0ld"), "0ld"),
        (metrics(None), "it serves no policies"),
        (TimeoutError(), "no answer: TimeoutError"),
        (ApiError(503, "error trying to reach service"), "error trying to reach service"),
        ("<html>", "no answer"),
    ],
    ids=["older", "none", "silent", "out of reach", "something else"],
)
def test_one_process_that_does_not_serve_them_is_named(ask, other, expected):
    for name in ALL:
        ended, _ = ask(Api(ALL | {name: other}))
        assert ended.exit_code == 1
        assert "are not in force everywhere (controllers: 2, webhooks: 2)" in ended.stdout
        [row] = [line for line in ended.stdout.splitlines() if line.startswith(name)]
        assert expected in row


def test_a_webhook_outside_of_the_cluster_is_known_by_what_it_tells_the_leader(ask):
    ended, _ = ask(Api({"controller-a": metrics(digests=[DIGEST])}))
    assert ended.exit_code == 0
    ended, _ = ask(Api({"controller-a": metrics(digests=[DIGEST, "0ld"])}))
    assert ended.exit_code == 1
    assert f"1 serve 0ld, 1 serve {DIGEST}" in ended.stdout
    assert ask(Api({"controller-a": metrics()}))[0].exit_code == 1


def test_json_has_all_of_it(ask):
    ended, _ = ask(Api(ALL | {"webhook-b": metrics("0ld")}), "--output", "json")
    assert ended.exit_code == 1
    found = json.loads(ended.stdout)
    assert (found["inForce"], found["digest"], found["problem"]) == (False, DIGEST, None)
    assert found["webhooksByPolicies"] == {DIGEST: 2}
    assert [each["digest"] for each in found["served"]] == [DIGEST, DIGEST, DIGEST, "0ld"]
    assert found["served"][0] == {
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
    assert ended.exit_code == 1
    assert "The policies of the ConfigMap are broken: default.yaml:3: limitr: unknown key" in ended.stdout


def test_pods_that_are_not_of_it_are_not_asked_and_those_that_start_are_named(ask):
    strangers = [pod("agent-a", "agent"), pod("other", config_map="others"), pod("gone", phase="Failed")]
    served = [pod("controller-a", "controller"), pod("webhook-a"), pod("webhook-b", phase="Pending")]
    ended, _ = ask(Api(ALL, [*strangers, *served]))
    assert ended.exit_code == 1
    rows = [
        line for line in ended.stdout.splitlines() if line.startswith(("agent", "other", "gone", "webhook-"))
    ]
    assert [row.split()[0] for row in rows] == ["webhook-a", "webhook-b"]
    assert rows[1].endswith("the pod is Pending")


def test_without_the_rights_or_an_installation_it_cannot_be_read(ask):
    ended, _ = ask(Api(ALL | {"webhook-a": ApiError(403, "pods/proxy is forbidden")}))
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "pods/proxy is forbidden" in ended.stderr
    assert ask(Api({}))[0].exit_code == 1
    assert ask(Api({}), "--policies-config-map", "nonsense")[0].exit_code == 2

"""`fraction-injector status` on a real API server: what it reads, by which rights, and pods out of reach."""

import json

import pytest

from policies.loading.loader import parse_policies
from testbed import components
from testbed.process import eventually
from tests.cli.running import run

NAME = "fraction-injector-policies"
POLICIES = {"default.yaml": "kind: Policy\nname: default\n"}
DIGEST = parse_policies({name: text.encode() for name, text in POLICIES.items()}).digest
RULES = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]
PROXY = {"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]}


@pytest.fixture
def installed(control_plane, namespace):
    """A ConfigMap of policies, and the pod of a webhook that mounts it, as far as no node is needed."""
    api = control_plane.api
    api.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": POLICIES}, namespace
    )
    container = {"name": "webhook", "image": "x", "ports": [{"name": "health", "containerPort": 1}]}
    volumes = [{"name": "policies", "configMap": {"name": NAME}}]
    metadata = {"name": "webhook-a", "labels": {"app.kubernetes.io/component": "webhook"}}
    spec = {"containers": [container], "volumes": volumes, "nodeSelector": {"no": "node"}}
    api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, namespace)
    running = {"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}
    path = f"/api/v1/namespaces/{namespace}/pods/webhook-a/status"
    api.call("PATCH", path, running, content="application/merge-patch+json")


@pytest.fixture
def status(control_plane, namespace, tmp_path):
    """Ask as somebody who has some rights in the test's namespace, and nothing else."""

    def ask(rules):
        api, kind = control_plane.api, "rbac.authorization.k8s.io"
        name = f"admin-{len(rules)}"
        api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}, namespace)
        api.create(
            {"apiVersion": f"{kind}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules},
            namespace,
        )
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
        role = {"apiGroup": kind, "kind": "Role", "name": name}
        binding = {"apiVersion": f"{kind}/v1", "kind": "RoleBinding", "metadata": {"name": name}}
        api.create({**binding, "roleRef": role, "subjects": subjects}, namespace)
        token = control_plane.kubectl(f"--namespace={namespace}", "create", "token", name).stdout.strip()
        components.write_kubeconfig(control_plane.home, control_plane.url, tmp_path / name, token)
        user = f"--as=system:serviceaccount:{namespace}:{name}"
        asked = [(verb, *rule["resources"]) for rule in rules for verb in rule["verbs"]]
        # The API server takes up new rights a moment later.
        for verb, resource in asked:
            named, _, part = resource.partition("/")
            can = ("auth", "can-i", verb, named, f"--namespace={namespace}", f"--subresource={part}", user)
            eventually(lambda can=can: control_plane.kubectl(*can).code == 0, f"{name} can {verb} {resource}")
        ended = run("status", "--output=json", f"--namespace={namespace}", f"--kubeconfig={tmp_path / name}")
        return ended.returncode, {line["about"]: line for line in json.loads(ended.stdout)}

    return ask


@pytest.mark.usefixtures("installed")
def test_the_rights_that_the_docs_name_are_enough_and_a_pod_out_of_reach_is_named(status):
    # No API server passes requests on to loopback; pods that answer are in tests/real_nodes.
    code, found = status([*RULES, PROXY])
    assert code == 1
    policies = found["policies"]
    assert policies["level"] == "failed"
    assert (policies["facts"]["inForce"], policies["facts"]["digest"]) == (False, DIGEST)
    [webhook] = policies["facts"]["served"]
    assert (webhook["pod"], webhook["digest"]) == ("webhook-a", None)
    assert webhook["problem"].startswith("no answer: the API server answered")


@pytest.mark.usefixtures("installed")
def test_without_the_right_to_ask_pods_it_says_so(status):
    _, found = status(RULES)
    assert found["policies"]["level"] == "skipped"
    assert "pods/proxy" in found["policies"]["what"]
    assert {found[about]["level"] for about in ("controller", "agents", "nodes")} == {"skipped"}

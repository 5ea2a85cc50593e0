"""What the controller's token can write: what the controller itself does, and nothing beside it.

RBAC gives it whole objects. A ValidatingAdmissionPolicy of the chart holds it to the parts that it changes.
"""

import asyncio
import base64
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from certs.observation import SecretContent
from controller.agent_taint import NodeTaints, hold_patch, release_patch, taints_of
from controller.certificates.delivery import CertificateDelivery
from controller.certificates.store import CertificateStore, Installation
from controller.geometry.mig_manager import MigManager
from controller.geometry.node_view import change_text
from controller.kube_client import JSON_PATCH, connect
from controller.metrics import ControllerMetrics
from controller.pod_deletion import PodDeletion
from kube.names import (
    AGENT_TAINT,
    CERTIFICATE_ANNOTATION,
    CORDON_ANNOTATION,
    INJECTED_ANNOTATION,
    MIG_CHANGE_ANNOTATION,
    MIG_CONFIG_LABEL,
    MIG_CONFIG_STATE_LABEL,
    PARTITIONING_LABELS,
)
from kube.scheduling import Taint
from testbed.api import MERGE_PATCH, Api, ApiError
from testbed.chart import ADMISSION, CONFIGURATION, RELEASE, Helm
from testbed.gpu_nodes import schedulable
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE
from tests.control_plane.test_chart_rbac import CONTROLLER, kubeconfig_of, token_of

pytestmark = pytest.mark.oldest_kubernetes  # CEL grows with each release
POLICY = f"{RELEASE}-controller-writes"
CONFIG_MAP = "mig-of-the-controller"
VALUES = {
    "agent": {"enabled": True},
    "mig": {"dynamic": {"enabled": True, "namespace": OWN_NAMESPACE, "configMap": CONFIG_MAP}},
    "policies": {"default": {"replaceWaiting": {"after": "10s"}}},
}
CONFIGURATIONS = f"/apis/{ADMISSION}/mutatingwebhookconfigurations/{RELEASE}"
OURS = {"key": AGENT_TAINT, "effect": "NoSchedule"}
OTHER = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
BEFORE, AFTER = "all-disabled", "fraction-injector-0123456789abcdef-a"
CHANGE = change_text(BEFORE, AFTER)
PARTITIONED = {PARTITIONING_LABELS[0]: "mig"}


@pytest.fixture(scope="module")
def helm(control_plane, tmp_path_factory):
    """The chart with all that gives its controller rights, once its policy is in effect."""
    if not control_plane.takes_pods(OWN_NAMESPACE):
        control_plane.create_namespace(OWN_NAMESPACE)
    helm = Helm(control_plane, tmp_path_factory.mktemp("helm"))
    helm.apply(VALUES)
    yield helm
    helm.uninstall()


@pytest.fixture(scope="module")
def token(control_plane, helm):
    """The controller's own."""
    return token_of(control_plane, CONTROLLER)


@pytest.fixture(scope="module")
def stolen(control_plane, token):
    """A client that has nothing but the controller's token, once the policy holds it."""
    with Api(control_plane.url, str(control_plane.home.ca_file), token) as api:
        deletes = f"/api/v1/namespaces/{OWN_NAMESPACE}/pods/none"
        eventually(lambda: why_refused(api, "DELETE", deletes)[0] == 404, "the account has its rights")
        path, body = f"/apis/coordination.k8s.io/v1/namespaces/{OWN_NAMESPACE}/leases", lease("in-effect")
        eventually(lambda: POLICY in why_refused(api, "POST", path, body)[1], "the policy is in effect")
        yield api


@asynccontextmanager
async def connected(control_plane, folder):
    """The controller's client, with its token."""
    api = await connect(kubeconfig_of(control_plane, CONTROLLER, folder / "kubeconfig"))
    try:
        yield api
    finally:
        await api.close()


def why_refused(api, method, path, body=None, content="application/json"):
    """Status and text of a refusal; nothing is changed where it is none."""
    try:
        api.call(method, path, body, {"dryRun": "All"}, content)
    except ApiError as error:
        return error.code, str(error)
    return 200, ""


def assert_policy_refuses(api, method, path, body=None, content="application/json"):
    """Only the policy refuses: what RBAC or validation refuses as well would prove nothing of it."""
    code, text = why_refused(api, method, path, body, content)
    assert (code, f"ValidatingAdmissionPolicy '{POLICY}'" in text) == (403, True), (code, text)
    assert len(text.partition("denied request: ")[2]) <= 200, text


def lease(name):
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}}


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}}


@pytest.fixture
def make_node(control_plane, namespace):
    """Make a node; return its path."""
    made = []

    def one(*, labels=PARTITIONED, annotations=None, **spec):
        name = f"{namespace}-node-{len(made)}"
        metadata = {"name": name, "labels": {"pool": "gpu", **labels}, "annotations": {"note": "1"}}
        metadata["annotations"] |= annotations or {}
        control_plane.api.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
        made.append(name)
        return f"/api/v1/nodes/{name}"

    yield one
    for name in made:
        control_plane.api.delete("Node", name)


def labels(**changed):
    return {"metadata": {"labels": {key.replace("__", "/"): value for key, value in changed.items()}}}


def annotated(key, value):
    return {"metadata": {"annotations": {key: value}}}


def taints(*wanted):
    return {"spec": {"taints": list(wanted)}}


def change_of(change, *, cordoned):
    return {**annotated(MIG_CHANGE_ANNOTATION, change), "spec": {"unschedulable": cordoned}}


ON_NODES = {
    "a taint of another key": taints(OTHER, {"key": "mine", "effect": "NoSchedule"}),
    "a taint that evicts": taints(OTHER, {**OURS, "effect": "NoExecute"}),
    "no taint of others": taints(),
    "ours instead of others": taints(OURS),
    "another's taint changed": taints({**OTHER, "effect": "NoExecute"}),
    "a label": labels(zone="mine"),
    "a label less": labels(pool=None),
    "another's label": labels(pool="mine"),
    "a label by which cards are divided": labels(**{PARTITIONING_LABELS[1]: "mig"}),
    "an annotation": annotated("note", "mine"),
    "an annotation less": annotated("note", None),
    "GPUs out of placement": annotated(CORDON_ANNOTATION, "0"),
    "a cordon without a change": {"spec": {"unschedulable": True}},
    "a change without a cordon": annotated(MIG_CHANGE_ANNOTATION, CHANGE),
    "an empty change": annotated(MIG_CHANGE_ANNOTATION, ""),
    "a configuration without a change": labels(
        **{MIG_CONFIG_LABEL: AFTER, MIG_CONFIG_STATE_LABEL: "pending"}
    ),
    "a state without a change": labels(**{MIG_CONFIG_STATE_LABEL: "success"}),
    "another provider": {"spec": {"providerID": "cloud://mine"}},
    "addresses of pods": {"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/stay"]}},
    "an owner": {
        "metadata": {
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "no-such-uid"}]
        }
    },
}


@pytest.mark.parametrize("change", ON_NODES.values(), ids=ON_NODES)
def test_of_a_node_nothing_else_is_changed(stolen, make_node, change):
    assert_policy_refuses(stolen, "PATCH", make_node(taints=[OTHER]), change, MERGE_PATCH)


def test_whoever_else_may_change_nodes_is_not_asked(control_plane, stolen, make_node):
    path = make_node(taints=[OTHER])
    for name, change in ON_NODES.items():
        assert why_refused(control_plane.api, "PATCH", path, change, MERGE_PATCH) == (200, ""), name


CORDONED = {
    "an admin's cordon lifted": {"spec": {"unschedulable": None}},
    "an admin's cordon taken over": change_of(CHANGE, cordoned=True),
}


@pytest.mark.parametrize("change", CORDONED.values(), ids=CORDONED)
def test_an_admins_cordon_stays(stolen, make_node, change):
    assert_policy_refuses(stolen, "PATCH", make_node(unschedulable=True), change, MERGE_PATCH)


def test_a_node_that_is_not_divided_on_demand_is_not_cordoned(stolen, make_node):
    change = change_of(CHANGE, cordoned=True)
    assert why_refused(stolen, "PATCH", make_node(), change, MERGE_PATCH) == (200, "")
    assert_policy_refuses(stolen, "PATCH", make_node(labels={}), change, MERGE_PATCH)


UNDER_WAY = {
    "another configuration than the change's": labels(**{MIG_CONFIG_LABEL: f"{AFTER[:-1]}b"}),
    "another's configuration": labels(**{MIG_CONFIG_LABEL: "all-balanced"}),
    "no configuration": labels(**{MIG_CONFIG_LABEL: None}),
    "a state that the MIG manager writes": labels(**{MIG_CONFIG_STATE_LABEL: "success"}),
    "another change": annotated(MIG_CHANGE_ANNOTATION, f"{CHANGE[:-1]}b"),
    "an empty change": annotated(MIG_CHANGE_ANNOTATION, ""),
    "its end without the cordon's": annotated(MIG_CHANGE_ANNOTATION, None),
    "the cordon's end without its own": {"spec": {"unschedulable": None}},
}


@pytest.mark.parametrize("change", UNDER_WAY.values(), ids=UNDER_WAY)
def test_a_change_under_way_is_only_carried_out_or_ended(stolen, make_node, change):
    begun = {
        "labels": {**PARTITIONED, MIG_CONFIG_LABEL: BEFORE},
        "annotations": {MIG_CHANGE_ANNOTATION: CHANGE},
    }
    path = make_node(unschedulable=True, **begun)
    assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)


def test_no_change_leads_to_a_configuration_that_is_not_ours(stolen, make_node):
    path = make_node()
    for target in ("all-balanced", ""):
        change = change_of(change_text(BEFORE, target), cordoned=True)
        assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)


FIRST = "/webhooks/0"
ON_WEBHOOK = {
    "its address": [
        {"op": "remove", "path": f"{FIRST}/clientConfig/service"},
        {"op": "add", "path": f"{FIRST}/clientConfig/url", "value": "https://example.com/mutate"},
    ],
    "its Service": [{"op": "replace", "path": f"{FIRST}/clientConfig/service/namespace", "value": "mine"}],
    "its path": [{"op": "replace", "path": f"{FIRST}/clientConfig/service/path", "value": "/"}],
    "its rules": [{"op": "replace", "path": f"{FIRST}/rules/0/resources", "value": ["*/*"]}],
    "more rules": [
        {
            "op": "add",
            "path": f"{FIRST}/rules/-",
            "value": {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["*"],
                "resources": ["secrets"],
            },
        }
    ],
    "its failure policy": [{"op": "replace", "path": f"{FIRST}/failurePolicy", "value": "Ignore"}],
    "its namespaces": [{"op": "replace", "path": f"{FIRST}/namespaceSelector", "value": {}}],
    "its objects": [
        {"op": "replace", "path": f"{FIRST}/objectSelector", "value": {"matchLabels": {"no": "pod"}}}
    ],
    "its conditions": [{"op": "remove", "path": f"{FIRST}/matchConditions"}],
    "its timeout": [{"op": "replace", "path": f"{FIRST}/timeoutSeconds", "value": 30}],
    "its name": [{"op": "replace", "path": f"{FIRST}/name", "value": "another.clearml-injector.io"}],
    "one more": [
        {
            "op": "add",
            "path": "/webhooks/-",
            "value": {
                "name": "mine.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "clientConfig": {"url": "https://example.com/mutate"},
            },
        }
    ],
    "none": [{"op": "remove", "path": FIRST}],
    "a label": [{"op": "add", "path": "/metadata/labels/mine", "value": "yes"}],
    "an annotation": [{"op": "add", "path": "/metadata/annotations/mine", "value": "yes"}],
    "a finalizer": [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/stay"]}],
}


@pytest.mark.parametrize("patch", ON_WEBHOOK.values(), ids=ON_WEBHOOK)
def test_of_the_webhooks_configuration_nothing_else_is_changed(control_plane, stolen, patch):
    assert_policy_refuses(stolen, "PATCH", CONFIGURATIONS, patch, JSON_PATCH)
    assert why_refused(control_plane.api, "PATCH", CONFIGURATIONS, patch, JSON_PATCH) == (200, "")


def pod(name, *, annotations=None, owner=None, **spec):
    metadata = {"name": name, "annotations": annotations or {}, "ownerReferences": [owner] if owner else []}
    spec = {"containers": [{"name": "task", "image": "example.com/task:1"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


INJECTED = {INJECTED_ANNOTATION: "default@0123456789ab"}
NOWHERE = {"nodeSelector": {"no": "node"}}
WAITING = {"annotations": INJECTED, "owner": {"controller": True}, **NOWHERE}
NOT_DELETED = {
    "one that is bound": {**WAITING, "nodeName": "nowhere"},
    "one that was not injected": {**WAITING, "annotations": {}},
    "one that nobody creates again": {**WAITING, "owner": None},
    "one of an owner who does not control it": {**WAITING, "owner": {}},
    "one that a finalizer keeps": WAITING,
}


@pytest.fixture
def owned(control_plane, namespace):
    """Make a pod whose owner is there: Kubernetes collects others."""
    uid = control_plane.api.create(config_map("owner"), namespace)["metadata"]["uid"]
    named = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}

    def one(*, owner, finalizers=(), **more):
        made = pod("task", owner={**named, **owner} if owner is not None else None, **more)
        made["metadata"]["finalizers"] = list(finalizers)
        return control_plane.api.create(made, namespace)["metadata"]["uid"]

    return one


@pytest.mark.parametrize("each", NOT_DELETED)
def test_other_pods_than_waiting_ones_are_not_deleted(control_plane, stolen, namespace, owned, each):
    owned(**NOT_DELETED[each], finalizers=["example.com/stay"] if "finalizer" in each else ())
    path = f"/api/v1/namespaces/{namespace}/pods/task"
    assert_policy_refuses(stolen, "DELETE", path)
    assert why_refused(control_plane.api, "DELETE", path) == (200, "")
    control_plane.api.patch("Pod", "task", {"metadata": {"finalizers": None}}, namespace)


@pytest.fixture
def own_pod(control_plane, stolen):
    """A pod in the controller's namespace that mounts the certificate."""
    volume = {"name": "tls", "secret": {"secretName": f"{RELEASE}-tls"}}
    control_plane.api.create(pod("touched", volumes=[volume], **NOWHERE), OWN_NAMESPACE)
    yield f"/api/v1/namespaces/{OWN_NAMESPACE}/pods/touched"
    control_plane.api.delete("Pod", "touched", OWN_NAMESPACE)


ON_STATUS = {
    "an address, to which a Service then leads": {
        "status": {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}
    },
    "a condition": {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
    "a phase": {"status": {"phase": "Failed"}},
    "a label": labels(app="mine"),
    "another annotation": annotated("note", "mine"),
}


@pytest.mark.parametrize("change", ON_STATUS.values(), ids=ON_STATUS)
def test_of_its_own_pods_only_the_annotation_is_changed(stolen, own_pod, change):
    assert_policy_refuses(stolen, "PATCH", f"{own_pod}/status", change, MERGE_PATCH)


def test_leases_and_config_maps_of_other_names_are_not_created(stolen):
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{OWN_NAMESPACE}/leases"
    assert_policy_refuses(stolen, "POST", leases, lease("mine"))
    generated = {**lease(""), "metadata": {"generateName": CONTROLLER}}
    assert_policy_refuses(stolen, "POST", leases, generated)
    assert why_refused(stolen, "POST", leases, lease(CONTROLLER)) == (200, "")
    maps = f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps"
    assert_policy_refuses(stolen, "POST", maps, config_map("mine"))
    assert why_refused(stolen, "POST", maps, config_map(CONFIG_MAP)) == (200, "")


ON_CONFIG_MAP = {
    "another file": {"data": {"hooks.yaml": "hooks: {}"}},
    "another's file": {"data": {"theirs.yaml": None}},
    "bytes": {"binaryData": {"hook": "AAAA"}},
    "a label": labels(mine="yes"),
}


@pytest.mark.parametrize("change", ON_CONFIG_MAP.values(), ids=ON_CONFIG_MAP)
def test_of_the_mig_managers_config_map_only_the_configurations_are_written(control_plane, stolen, change):
    made = {**config_map(CONFIG_MAP), "data": {"config.yaml": "version: v1", "theirs.yaml": "1"}}
    control_plane.api.create(made, OWN_NAMESPACE)
    path = f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps/{CONFIG_MAP}"
    try:
        assert_policy_refuses(stolen, "PATCH", path, change, MERGE_PATCH)
        theirs = {"data": {"config.yaml": "version: v1\nmig-configs: {}"}}
        assert why_refused(stolen, "PATCH", path, theirs, MERGE_PATCH) == (200, "")
    finally:
        control_plane.api.delete("ConfigMap", CONFIG_MAP, OWN_NAMESPACE)


@pytest.mark.parametrize("known", [[], [OTHER], [OTHER, {**OURS, "effect": "NoExecute"}]], ids=len)
def test_the_controller_holds_nodes_and_lets_them_go(control_plane, stolen, make_node, tmp_path, known):
    path = make_node(taints=known)
    # The taint of a new node goes first, for which a patch by place would be refused.
    eventually(lambda: schedulable(control_plane.api.call("GET", path)), "the node is ready")

    def found():
        taints = control_plane.api.call("GET", path)["spec"].get("taints", [])
        return taints_of([Taint(each["key"], each["effect"]) for each in taints])

    async def main():
        async with connected(control_plane, tmp_path) as api:
            await api.request("PATCH", path, body=hold_patch(found()), content_type=JSON_PATCH)
            held = found()
            await api.request("PATCH", path, body=release_patch(held.ours), content_type=JSON_PATCH)
            return held, found()

    held, released = asyncio.run(main())
    assert (held.count, held.ours, released.count, released.ours) == (
        len(known) + 1,
        len(known),
        len(known),
        None,
    )


def test_the_controller_holds_nodes_with_thousands_of_labels_and_annotations(stolen, make_node):
    many = {f"example.com/{n}": "x" for n in range(5000)}
    path = make_node(labels=many, annotations=many, taints=[OTHER])
    patch = hold_patch(NodeTaints(count=1))
    assert why_refused(stolen, "PATCH", path, patch, JSON_PATCH) == (200, "")


def test_the_controller_divides_cards(control_plane, stolen, make_node, tmp_path):
    path = make_node()
    name = path.rpartition("/")[2]
    control_plane.api.patch("Node", name, labels(**{MIG_CONFIG_LABEL: BEFORE}))

    async def main():
        async with connected(control_plane, tmp_path) as api:
            manager = MigManager(api, OWN_NAMESPACE, CONFIG_MAP)
            for node in (["one"], ["one", "another"]):
                file = await manager.read()
                for each in node:
                    file.add(each, (("3g.20gb", "4g.20gb"),))
                await manager.write(file)
            written = (await manager.read()).divisions
            await manager.cordon(name, CHANGE)
            cordoned = control_plane.api.get("Node", name)
            await manager.ask(name, AFTER)
            asked = control_plane.api.get("Node", name)
            await manager.uncordon(name)
            return written, cordoned, asked, control_plane.api.get("Node", name)

    written, cordoned, asked, free = asyncio.run(main())
    control_plane.api.delete("ConfigMap", CONFIG_MAP, OWN_NAMESPACE)
    assert len(written) == 4
    assert cordoned["spec"]["unschedulable"] is True
    assert cordoned["metadata"]["annotations"][MIG_CHANGE_ANNOTATION] == CHANGE
    assert asked["metadata"]["labels"][MIG_CONFIG_LABEL] == AFTER
    assert asked["metadata"]["labels"][MIG_CONFIG_STATE_LABEL] == "pending"
    assert "unschedulable" not in free["spec"]
    assert MIG_CHANGE_ANNOTATION not in free["metadata"]["annotations"]


def test_the_controller_takes_its_cordon_back_from_a_node_that_others_uncordoned_or_took_over(
    control_plane, stolen, make_node, tmp_path
):
    begun = {MIG_CHANGE_ANNOTATION: CHANGE}
    paths = [make_node(annotations=begun), make_node(annotations=begun, labels={}, unschedulable=True)]

    async def main():
        async with connected(control_plane, tmp_path) as api:
            for path in paths:
                await MigManager(api, OWN_NAMESPACE, CONFIG_MAP).uncordon(path.rpartition("/")[2])

    asyncio.run(main())
    for path in paths:
        found = control_plane.api.call("GET", path)
        assert MIG_CHANGE_ANNOTATION not in found["metadata"]["annotations"]
        assert not found["spec"].get("unschedulable")


def test_the_controller_writes_the_ca_and_touches_its_pods(control_plane, stolen, own_pod, tmp_path):
    async def main():
        async with connected(control_plane, tmp_path) as api:
            store = CertificateStore(api, Installation(OWN_NAMESPACE, RELEASE))
            for pem in (b"one", b"one\ntwo"):
                await store.write_bundle(pem, await store.read_bundle())
            await CertificateDelivery(api, OWN_NAMESPACE, f"{RELEASE}-tls").hasten(SecretContent({}, {}))

    asyncio.run(main())
    [entry] = control_plane.api.get(CONFIGURATION, RELEASE, api=ADMISSION)["webhooks"]
    assert base64.b64decode(entry["clientConfig"]["caBundle"]) == b"one\ntwo"
    assert CERTIFICATE_ANNOTATION in control_plane.api.call("GET", own_pod)["metadata"]["annotations"]


class Leading:
    leads = True


def test_the_controller_deletes_a_pod_that_waits(control_plane, stolen, namespace, owned, tmp_path):
    uid = owned(**WAITING)

    async def main():
        async with connected(control_plane, tmp_path) as api:
            deletion = PodDeletion(api, Leading(), ControllerMetrics(CollectorRegistry()))
            key = namespace, "task"
            stored = await deletion.read(key, uid)
            assert stored is not None
            return await deletion.delete(key, stored)

    assert asyncio.run(main()) is True
    assert control_plane.api.list("Pod", namespace) == []


def test_the_api_server_finds_no_type_error_in_it(control_plane, stolen):
    def status():
        return control_plane.api.get("ValidatingAdmissionPolicy", POLICY, api=ADMISSION).get("status")

    assert eventually(status, "it is checked")["typeChecking"] == {}

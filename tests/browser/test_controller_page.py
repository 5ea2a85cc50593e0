"""The controller's page on a real control plane, in a real browser; and who may see it, by real tokens."""

import json
import ssl
from functools import partial

import httpx
import pytest

from kube.names import PAGE_AUDIENCE
from testbed.api import Api, ApiError
from testbed.authorizer import may
from testbed.controller_process import SHORT_LEASE, Controller, install_crd, registered_webhook, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually, free_ports
from testbed.registration import labelled_pod
from tests.control_plane.conftest import built, control_plane, namespace, nodes

__all__ = ["built", "control_plane", "namespace", "nodes"]

LIVE = "#state:text-is('live')"
LONG = "-".join(["long"] * 50)
"""A name of 249 characters."""
NO_TOKEN = "send a bearer token: kubectl create token SERVICEACCOUNT --audience=fraction-injector-page"  # noqa: S105
LEDGERS = ("clearml-injector.io", "gpuledgers")
LISTS = {"apiGroups": [LEDGERS[0]], "resources": [LEDGERS[1]], "verbs": ["list"]}


@pytest.fixture(scope="module")
def start_controller(control_plane, tmp_path_factory):
    """Starts controllers that show a page; each ends with the module."""
    install_crd(control_plane.api)
    started = []

    def start(*options):
        folder = tmp_path_factory.mktemp("controller")
        more = [*SHORT_LEASE, "--page", f"--page-port={free_ports(1)[0]}", *options]
        tls = write_tls(folder / "tls")
        started.append(Controller(control_plane.kubeconfig, folder, tls, folder.name, more=more))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture(scope="module")
def controller(start_controller):
    """One whose page is on loopback."""
    return start_controller()


@pytest.fixture(scope="module")
def exposed(start_controller):
    """One whose page is for everyone who has a token."""
    return start_controller("--page-host=0.0.0.0")


def gpu_pod(name, index=0, slices=4):
    limits = {f"nvidia.com/gpu-{index}": str(slices)}
    container = {"name": "task", "image": "example.com/task:1", "resources": {"limits": limits}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_pods_show_up_while_the_page_is_open_and_go_again(
    control_plane, namespace, nodes, controller, open_page
):
    [node] = nodes(GpuNode(gpus=2))
    tab = open_page(f"{controller.page}?node={node}").tab
    tab.wait_for_selector(LIVE)
    for name in ("one", LONG):
        control_plane.api.create(gpu_pod(name, index=1), namespace)
        found = tab.wait_for_selector(f".gpu[aria-label*='{namespace}/{name} 4 slices, 40 GiB']")
        assert f"{node} GPU 1;" in found.get_attribute("aria-label")
        found.hover()
        assert " s" in tab.inner_text("#shares")
        control_plane.api.delete("Pod", name, namespace)
        tab.wait_for_selector(f".gpu[aria-label^='{node} GPU 1; 8 of 8 slices free']")


def test_a_waiting_pod_is_shown_with_the_reason_in_words(
    control_plane, namespace, nodes, controller, open_page
):
    [node] = nodes(GpuNode())
    tab = open_page(controller.page).tab
    control_plane.api.create(gpu_pod("first", slices=6), namespace)
    tab.wait_for_selector(f".gpu[aria-label*='{namespace}/first']")
    control_plane.api.create(gpu_pod("second", slices=6), namespace)
    item = f"#waiting > li:has-text('{namespace}/second'):has-text('needs 6 slices of GPU 0')"
    assert f"free now: {node}: 2" in tab.wait_for_selector(item).text_content()


def test_a_denied_pod_is_shown_with_its_reason_and_the_line_that_its_author_read(
    control_plane, namespace, nodes, controller, tmp_path
):
    nodes(GpuNode())
    controller.until_leading()
    with registered_webhook(control_plane.api, namespace, controller, tmp_path):
        with pytest.raises(ApiError, match="denied the request") as refused:
            control_plane.api.create(labelled_pod("greedy", "0.333"), namespace)
        shown = eventually(lambda: denied_in(controller, namespace), "the page tells of the denial")
    assert [each["reason"] for each in shown] == ["label-not-allowed"]
    assert shown[0]["pods"] >= 1
    assert shown[0]["message"] in str(refused.value)
    assert "greedy" not in str(shown)


def denied_in(controller, namespace):
    """Denials of a namespace in the first panels of the page's stream."""
    with httpx.stream("GET", f"{controller.page}stream", trust_env=False, timeout=60) as answer:
        line = next(line for line in answer.iter_lines() if "waiting_in_all" in line)
    panels = json.loads(line.removeprefix("data: "))
    return [each for each in panels["denials"] or () if each.get("namespace") == namespace]


def test_a_restart_of_the_controller_is_survived(control_plane, namespace, nodes, controller, open_page):
    [node] = nodes(GpuNode())
    tab = open_page(f"{controller.page}?node={node}").tab
    tab.wait_for_selector(LIVE)
    controller.process.stop()
    tab.wait_for_selector(".frozen")
    control_plane.api.create(gpu_pod("meanwhile"), namespace)
    controller.start_again()
    tab.wait_for_selector(f"body:not(.frozen) .gpu[aria-label*='{namespace}/meanwhile']")


def token_of(control_plane, namespace, name, *audiences):
    """A token of a service account that is made for it; without audiences for the API server."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    if control_plane.kubectl("get", "serviceaccount", name, f"--namespace={namespace}").code != 0:
        control_plane.api.create(account, namespace)
    asked = [f"--audience={audience}" for audience in audiences]
    made = control_plane.kubectl("create", "token", name, f"--namespace={namespace}", *asked)
    assert (made.code, made.stderr) == (0, "")
    return made.stdout.strip()


def allow(control_plane, namespace, name, kind):
    """Let a service account list GpuLedgers: of a ClusterRole everywhere, of a Role in its namespace."""
    group = "rbac.authorization.k8s.io"
    metadata = {"name": f"{namespace}-{name}"}
    where = namespace if kind == "Role" else ""
    role = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "rules": [LISTS]}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    control_plane.api.create(role, where)
    control_plane.api.create(binding, where)
    # A page remembers for half a minute what a token may not.
    listing = partial(may, control_plane.api, (namespace, name), "list", LEDGERS, namespace=where)
    eventually(listing, "the API server knows it")


def ask(controller, token=None, namespace=""):
    """What the stream of an exposed page answers: status, and text up to the first panels."""
    trust = ssl.create_default_context(cafile=str(controller.tls / "ca.crt"))
    headers = {"authorization": f"Bearer {token}"} if token else {}
    address = controller.page.replace("http:", "https:") + "stream"
    with (
        httpx.Client(verify=trust, trust_env=False, timeout=60) as client,
        client.stream("GET", address, headers=headers, params={"namespace": namespace}) as answer,
    ):
        lines = []
        for line in answer.iter_lines():
            lines.append(line)
            if "waiting_in_all" in line:
                break
        return answer.status_code, "\n".join(lines)


def test_the_exposed_page_shows_nothing_without_a_right(control_plane, namespace, nodes, exposed):
    nodes(GpuNode())
    assert ask(exposed) == (401, NO_TOKEN)
    status, text = ask(exposed, "made-up")
    assert (status, "does not know this token" in text) == (401, True)
    nobody = token_of(control_plane, namespace, "nobody")
    for asked in ("", namespace):
        status, text = ask(exposed, nobody, asked)
        assert (status, "may not list gpuledgers" in text) == (403, True)


def test_the_exposed_page_shows_all_to_who_may_list_all_ledgers(control_plane, namespace, nodes, exposed):
    nodes(GpuNode())
    control_plane.api.create(gpu_pod("theirs"), namespace)
    eventually(lambda: "theirs" in str(exposed.ledger()), "the ledger has the pod")
    token = token_of(control_plane, namespace, "admin")
    allow(control_plane, namespace, "admin", "ClusterRole")
    status, text = ask(exposed, token)
    assert (status, '"pod":"theirs"' in text) == (200, True)


def test_a_token_for_the_page_shows_the_page_and_opens_nothing_else(control_plane, namespace, nodes, exposed):
    nodes(GpuNode())
    token = token_of(control_plane, namespace, "admin", PAGE_AUDIENCE)
    allow(control_plane, namespace, "admin", "ClusterRole")
    assert ask(exposed, token)[0] == 200
    both = token_of(control_plane, namespace, "admin", "vault", PAGE_AUDIENCE)
    assert ask(exposed, both)[0] == 200
    for_api_server = token_of(control_plane, namespace, "admin")
    assert lists_ledgers(control_plane, for_api_server) == 200
    assert [lists_ledgers(control_plane, each) for each in (token, both)] == [401, 401]


def lists_ledgers(control_plane, token):
    """What the API server answers to who shows it this token."""
    with Api(control_plane.url, str(control_plane.home.ca_file), token) as api:
        try:
            api.call("GET", "/apis/clearml-injector.io/v1alpha1/gpuledgers")
        except ApiError as error:
            return error.code
    return 200


def test_a_token_for_another_service_shows_nothing(control_plane, namespace, exposed):
    token = token_of(control_plane, namespace, "admin", "vault")
    allow(control_plane, namespace, "admin", "ClusterRole")
    status, text = ask(exposed, token)
    assert (status, "does not know this token" in text) == (401, True)


def test_a_viewer_of_one_namespace_sees_the_pods_of_others_as_other(
    control_plane, namespace, nodes, exposed, open_page
):
    other = f"{namespace}-other"
    control_plane.create_namespace(other)
    [node] = nodes(GpuNode())
    control_plane.api.create(gpu_pod("theirs", slices=2), namespace)
    control_plane.api.create(gpu_pod("hidden"), other)
    eventually(lambda: exposed.taken().get(node) == {0: 6}, "both hold their slices")
    token = token_of(control_plane, namespace, "viewer")
    allow(control_plane, namespace, "viewer", "Role")
    assert ask(exposed, token)[0] == ask(exposed, token, other)[0] == 403
    status, text = ask(exposed, token, namespace)
    assert (status, '"pod":"theirs"' in text, "hidden" in text, other in text) == (200, True, False, False)
    address = f"{exposed.page.replace('http:', 'https:')}?node={node}&namespace={namespace}"
    tab = open_page(address, ignore_https_errors=True).tab
    tab.fill("#token", token)
    tab.click("#login button")
    label = tab.wait_for_selector(".gpu[aria-label*='other 4 slices']").get_attribute("aria-label")
    assert f"{namespace}/theirs 2 slices" in label
    tab.wait_for_selector(LIVE)
    control_plane.api.delete_all("Pod", other)
    control_plane.api.delete("Namespace", other)

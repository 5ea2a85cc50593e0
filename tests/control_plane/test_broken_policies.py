"""A broken policy set: webhooks that start get the controller's last good one, and Events tell of it."""

from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import httpx
import pytest

from certs.authority import make_authority
from testbed.controller_process import (
    SHORT_LEASE,
    Controller,
    asking_webhook,
    client_context,
    install_crd,
    write_tls,
)
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.product import INJECTED, decides
from testbed.registration import configuration, labelled_pod, registered

GOOD = "kind: Policy\nname: default\nlimiter: none\nenv: {SITE: first}\n"
MENDED = GOOD.replace("first", "second")
BROKEN = GOOD.replace("limiter", "limitr")
MISTAKE = 'default.yaml:3: limitr: unknown key (did you mean "limiter"?)'
CONFIG_MAP = "fraction-injector-policies"


@pytest.fixture
def folder(tmp_path):
    """A policy directory, written as a whole."""
    directory = tmp_path / "policies"
    directory.mkdir()

    def write(text):
        coming = directory / "coming"
        coming.write_text(text)
        coming.replace(directory / "default.yaml")
        return directory

    return write


@contextmanager
def controller_of(control_plane, directory, tmp_path):
    """A controller that reads the policies, whose replicas and webhooks share a CA."""
    install_crd(control_plane.api)
    tls = write_tls(tmp_path / "tls", make_authority(datetime.now(UTC)))
    more = (*SHORT_LEASE, f"--policies={directory}", f"--policies-config-map={CONFIG_MAP}")
    lease = f"policies-{tmp_path.name}".replace("_", "-")
    with Controller(control_plane.kubeconfig, tmp_path, tls, lease, more=more) as controller:
        yield controller


@pytest.fixture
def config_map(control_plane):
    """The ConfigMap that the directory is said to come from."""
    stored = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}}
    yield control_plane.api.create(stored, "default")
    control_plane.api.delete("ConfigMap", CONFIG_MAP, "default")


def readyz(webhook, tls):
    url = webhook.url.replace("/mutate", "/readyz")
    return httpx.get(url, verify=client_context(tls), trust_env=False, timeout=60).text


def site_of(pod):
    [variable] = [each for each in pod["spec"]["containers"][0]["env"] if each["name"] == "SITE"]
    return variable["value"]


@pytest.mark.usefixtures("config_map")
def test_a_webhook_that_starts_on_a_broken_set_serves_the_controllers_last_good_one(
    control_plane, namespace, nodes, folder, tmp_path
):
    api, directory = control_plane.api, folder(GOOD)
    nodes(GpuNode())
    with ExitStack() as stack:
        controller = stack.enter_context(controller_of(control_plane, directory, tmp_path))
        controller.until_leading()
        folder(BROKEN)
        eventually(lambda: "webhooks that start get" in controller.plain("/readyz"), "the controller sees it")

        webhook = stack.enter_context(asking_webhook(controller.url, controller.tls, tmp_path, directory))
        config = configuration("fractions", webhook.url, webhook.ca_pem)
        stack.enter_context(registered(api, config, namespace, decides))
        pod = api.create(labelled_pod("on-older"), namespace)
        assert (INJECTED in pod["metadata"]["annotations"], site_of(pod)) == (True, "first")
        probe = readyz(webhook, controller.tls)
        assert "[+] policies: ok" in probe
        assert f"the last good set, from the controller; the directory holds: {MISTAKE}" in probe
        assert webhook.figure("fraction_injector_policies_from_controller") == 1
        assert webhook.figure("fraction_injector_policy_last_reload_successful") == 0
        log = (tmp_path / "webhook.log").read_text()
        assert "policies are broken: the controller's last good set is in force" in log

        folder(MENDED)
        eventually(lambda: readyz(webhook, controller.tls).count(": in force"), "the fixed set is in force")
        assert site_of(api.create(labelled_pod("on-repaired"), namespace)) == "second"
        assert webhook.figure("fraction_injector_policies_from_controller") == 0

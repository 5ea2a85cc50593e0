"""Mode dra where the API server's feature gate for parts of devices is off, and after it is turned on."""

import asyncio
import copy

import pytest

from testbed import components
from testbed.api import Api, ApiError
from testbed.components import ADMIN_TOKEN
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import labelled_pod
from tests.agent.support.dra import NODE, DraKubelet, dra_node
from tests.agent.support.node import card, running, until_says
from tests.cli.running import run
from tests.control_plane import test_claims_of_shares
from tests.control_plane.test_claims_of_shares import POLICY, allocated, create, templates
from tests.control_plane.test_gpu_nodes import client_of

device_class, pytestmark = test_claims_of_shares.device_class, test_claims_of_shares.pytestmark
GATE = "DRAConsumableCapacity"


@pytest.fixture
def control_plane(control_plane, tmp_path):
    """The session's, through another API server whose gate is off until `turn_on` starts it again."""
    home, etcd, name = control_plane.home, control_plane.etcd_url, "apiserver-without-gate"
    gated = copy.copy(control_plane)
    gated.process, gated.url = components.start_apiserver(home, etcd, name, f"--feature-gates={GATE}=false")
    gated.kubeconfig, port = tmp_path / "kubeconfig-without-gate", int(gated.url.rpartition(":")[2])
    components.write_kubeconfig(home, gated.url, gated.kubeconfig)

    def turn_on():
        gated.process.stop()
        arguments = components.apiserver_arguments(home, etcd, port)
        gated.process = home.start("kube-apiserver", *arguments, name=name)
        eventually(gated.api.ready, "the API server is back")

    gated.turn_on = turn_on
    with Api(gated.url, str(home.ca_file), ADMIN_TOKEN) as gated.api:
        yield gated
    gated.process.stop()


@pytest.fixture
def leader(control_plane, own_namespace):
    """A sign of an installation: without any, the doctor says only that there is none."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "fraction-injector-controller"},
        "spec": {},
    }
    control_plane.api.create(lease, own_namespace)
    yield
    control_plane.api.delete("Lease", lease["metadata"]["name"], own_namespace, lease["apiVersion"])


@pytest.mark.usefixtures("device_class", "leader")
async def test_no_share_is_given_while_the_gate_is_off_and_all_name_it_until_it_is_on(
    control_plane, namespace, nodes, serve, tmp_path
):
    serve(POLICY, "--claim-templates")
    nodes(GpuNode(gpus=0), names=(NODE,))

    def denial():
        with pytest.raises(ApiError) as refused:
            control_plane.api.create(labelled_pod("pod"), namespace)
        return f"its feature gate {GATE} is off" in str(refused.value)

    def advice():
        said = run("doctor", NODE, "--no-trial", f"--kubeconfig={control_plane.kubeconfig}").stdout
        return f"turn on its feature gate {GATE}" in said

    def holds_an_eighth():
        return allocated(control_plane, namespace) == [(NODE, "gpu-0", "gpu", "125k")]

    client = client_of(control_plane, ADMIN_TOKEN, tmp_path)
    async with dra_node(card(0)) as (agent, _, _), running(agent, api=client) as process:
        await DraKubelet(agent).register()
        await until_says(process, GATE)
        await asyncio.to_thread(eventually, advice, "the doctor names the gate")
        await asyncio.to_thread(eventually, denial, "the denial names it")
        assert templates(control_plane, namespace) == []
        control_plane.turn_on()
        await until_says(process, None)
        await asyncio.to_thread(create, control_plane, namespace, ["pod"])
        await asyncio.to_thread(eventually, holds_an_eighth, "the pod has an eighth")

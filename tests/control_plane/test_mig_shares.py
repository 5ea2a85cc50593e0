"""A MIG node and a time-sliced one behind one request: webhook, controller, scheduler, and churn of pods."""

import random
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from certs.authority import make_authority
from testbed.controller_process import Controller, asking_webhook, install_crd, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.product import decides
from testbed.registration import configuration, labelled_pod, registered

BOTH = "kind: Policy\nname: default\nresources: {prefer: [mig, per-gpu]}\nlimiter: none\n"
INSTANCES = {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-3g.40gb": 1}
SLICES = {"nvidia.com/gpu-0": 8}
EIGHTHS = {"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-3g.40gb": 4}


@pytest.fixture
def cluster(control_plane, namespace, tmp_path):
    """A MIG node, a sliced one, a controller and a webhook that asks it."""
    api = control_plane.api
    install_crd(api)
    divided = GpuNode(gpus=0, instances=INSTANCES).manifest(f"{namespace}-mig")
    sliced = GpuNode(gpus=1, memory_mib=46068, product="NVIDIA-L40S").manifest(f"{namespace}-sliced")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "default.yaml").write_text(BOTH)
    tls = write_tls(tmp_path / "tls", make_authority(datetime.now(UTC)))
    with ExitStack() as stack:
        for node in (divided, sliced):
            api.create(node)
            stack.callback(api.delete, "Node", node["metadata"]["name"])
        controller = Controller(control_plane.kubeconfig, tmp_path, tls, lease=f"c-{namespace}", name="a")
        stack.callback(controller.stop)
        webhook = asking_webhook(controller.url, tls, tmp_path, tmp_path / "policies")
        stack.callback(webhook.stop)
        config = configuration("fractions", webhook.url, webhook.ca_pem)
        stack.enter_context(registered(api, config, namespace, decides))
        yield api


def amounts_of(pod):
    (task,) = pod["spec"]["containers"]
    limits = task["resources"]["limits"]
    return {name: int(amount) for name, amount in limits.items() if name in {**INSTANCES, **SLICES}}


def held(pods):
    """What bound pods hold, by resource."""
    total = Counter()
    for pod in pods:
        if pod["spec"].get("nodeName"):
            total.update(amounts_of(pod))
    return total


def test_pods_that_come_and_go_never_hold_more_than_the_nodes_have(cluster, namespace):
    chance, live, families = random.Random(1), [], Counter()  # noqa: S311 - repeatable churn
    for number in range(30):
        share = chance.choice(["0.125", "0.250", "0.500"])
        made = cluster.create(labelled_pod(f"pod-{number}", share), namespace)
        (resource,) = amounts_of(made)
        given = EIGHTHS.get(resource, amounts_of(made)[resource])
        assert given >= float(share) * 8
        assert given <= 2 * float(share) * 8
        families[resource.startswith("nvidia.com/mig-")] += 1
        live.append(made["metadata"]["name"])
        taken = held(cluster.list("Pod", namespace))
        assert all(count <= {**INSTANCES, **SLICES}[name] for name, count in taken.items())
        if len(live) > chance.randint(4, 9):
            cluster.delete("Pod", live.pop(0), namespace)
    assert all(families[is_instance] for is_instance in (True, False))


def test_instances_are_given_first_and_counted_whoever_holds_them(cluster, namespace):
    own = labelled_pod("own", "0.125")
    del own["metadata"]["labels"]
    own["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-1g.10gb": "2"}}
    assert cluster.create(own, namespace)["spec"]["containers"][0]["resources"]["limits"] == {
        "nvidia.com/mig-1g.10gb": "2"
    }
    both = {"nvidia.com/mig-1g.10gb": 2}
    eventually(lambda: held(cluster.list("Pod", namespace)) == both, "the pod without a label is bound")
    made = [cluster.create(labelled_pod(name, "0.125"), namespace) for name in ("first", "second")]
    assert [list(amounts_of(pod)) for pod in made] == [["nvidia.com/mig-1g.10gb"], ["nvidia.com/gpu-0"]]

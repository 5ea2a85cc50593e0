"""Pods that ask in the words of KAI, Run:ai or HAMi: ours where the policy says so, else left alone."""

import pytest

from ledger.ledger import Ledger
from tests.ledger.cluster import gpu_node
from tests.webhook.support import LABEL, Webhook, container, pod, policies

KAI, HAMI = policies("aliases: {kai: true}"), policies("aliases: {hami: true}")
GPU, MEM, PERCENT = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"
MEMORY_LABEL = "clearml-injector/gpu-memory"


def webhook_of(policy_set):
    ledger = Ledger()
    ledger.set_node(gpu_node("a", 4))
    return Webhook(policy_set, ledger)


def kai(**annotations):
    said = {f"gpu-{name.replace('_', '-')}": text for name, text in annotations.items()}
    return pod(fraction=None, metadata={"annotations": said})


def hami(limits, **fields):
    return pod(fraction=None, containers=[container(limits=limits), *fields.pop("others", [])], **fields)


def limits(decided, name="train"):
    return decided.container(name)["resources"]["limits"]


@pytest.mark.parametrize("policy_set", [KAI, HAMI, policies("aliases: {kai: true, hami: true}")])
@pytest.mark.parametrize("found", [pod(fraction=None), hami({GPU: "1"}), kai(fraction_num_devices="2")])
def test_pods_that_ask_in_no_such_words_stay_as_they_are(policy_set, found):
    decided = webhook_of(policy_set).decide(found)
    assert (decided.code, decided.patch) == ("not-labelled", [])


def test_a_forged_marker_of_ours_is_not_believed():
    found = kai(fraction="0.5")
    found["metadata"]["annotations"] |= {
        "clearml-injector/injected": "default@x",
        "clearml-injector/slices": "1",
    }
    decided = webhook_of(KAI).decide(found)
    assert decided.annotations["clearml-injector/slices"] == "4"


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"fraction": "0.3"}, 'gpu-fraction "0.3" is not a fraction of policy default: use 0.125'),
        ({"fraction": "9" * 100_000}, 'gpu-fraction "999999999999..." is not a fraction'),
    ],
)
def test_amounts_that_have_no_match_are_denied(annotations, message):
    decided = webhook_of(KAI).decide(kai(**annotations))
    assert decided.code == "alias-not-allowed"
    assert message in decided.message


def test_memory_of_hamis_leaves_the_pod_with_its_whole_gpus():
    decided = webhook_of(HAMI).decide(hami({GPU: "2", MEM: "15000", "cpu": "1"}))
    assert decided.stored["metadata"]["labels"] == {MEMORY_LABEL: "15000Mi"}
    assert limits(decided) == {"cpu": "1", "nvidia.com/gpu-0": "2", "nvidia.com/gpu-1": "2"}
    assert decided.container()["resources"]["requests"] == limits(decided)


@pytest.mark.parametrize("written", ["3k", "3000", 3000, "3e3"])
def test_memory_of_hamis_is_read_as_the_api_server_writes_it(written):
    decided = webhook_of(HAMI).decide(hami({GPU: "1", MEM: written}))
    assert decided.stored["metadata"]["labels"] == {MEMORY_LABEL: "3000Mi"}


@pytest.mark.parametrize(
    ("amounts", "message"),
    [
        ({GPU: "1", MEM: "1G"}, f'{MEM} "1G" is not a whole number of MiB'),
        (
            {GPU: "1", PERCENT: "33"},
            f'{PERCENT} "33" is not a fraction of policy default: use 25, 50, 75, or the label {LABEL}',
        ),
    ],
)
def test_amounts_of_hamis_that_have_no_match_are_denied(amounts, message):
    decided = webhook_of(HAMI).decide(hami(amounts))
    assert decided.code == "alias-not-allowed"
    assert message in decided.message


def test_two_containers_of_hamis_are_denied():
    found = hami({GPU: "1", MEM: "100"}, others=[container("second", limits={GPU: "1", MEM: "100"})])
    denied = webhook_of(HAMI).decide(found)
    assert denied.code == "alias-not-allowed"
    assert denied.message == (
        'containers "train" and "second" both request HAMi resources: use only one of them,'
        " or use our label and clearml-injector/containers"
    )


@pytest.mark.parametrize("written", [{GPU: "1", MEM: "15000"}, {MEM: "15000"}, {MEM: "15k"}])
def test_an_init_container_of_hamis_gets_the_same_share_of_the_same_gpu(written):
    inits = [container("plain"), container("warm", limits=written)]
    decided = webhook_of(HAMI).decide(hami({GPU: "1", MEM: "15000"}, initContainers=inits))
    assert limits(decided, "warm") == limits(decided) == {"nvidia.com/gpu-0": "2"}
    assert dict(decided.env("warm"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "15000m"
    assert decided.container("warm")["resources"]["requests"] == {"nvidia.com/gpu-0": "2"}
    assert dict(decided.env("plain")) == {"NVIDIA_VISIBLE_DEVICES": "void"}


def test_an_init_container_of_hamis_alone_is_denied_and_not_left_to_wait_for_ever():
    warm = container("warm", limits={GPU: "1", MEM: "100"})
    found = pod(fraction=None, initContainers=[warm])
    denied = webhook_of(HAMI).decide(found)
    assert (denied.code, denied.message) == (
        "alias-not-allowed",
        f"only init containers request {MEM}: request it in a regular container",
    )
    assert webhook_of(None).decide(found).code == "not-labelled"


@pytest.mark.parametrize("node", ["system:node:a", "somebody"])
def test_a_static_pod_that_a_node_shows_is_let_through_as_it_is(node):
    found = kai(fraction="0.5")
    found["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "digest"
    decided = webhook_of(KAI).decide(found, userInfo={"username": node, "groups": ["system:nodes"]})
    assert decided.code == ("injected" if node == "somebody" else "mirror-pod")


@pytest.mark.parametrize(
    ("policy_set", "metadata", "message"),
    [
        (
            KAI,
            {"labels": {"gpu-fraction": "0.5"}},
            "label gpu-fraction has no effect: write it as an annotation",
        ),
        (
            HAMI,
            {"annotations": {MEM: "4096"}},
            f"annotation {MEM} has no effect: write it in resources.limits of a container",
        ),
    ],
)
def test_an_amount_in_the_wrong_place_is_denied_where_the_syntax_is_accepted(policy_set, metadata, message):
    found = pod(fraction=None, metadata=metadata)
    decided = webhook_of(policy_set).decide(found)
    assert (decided.code, decided.message) == ("alias-not-allowed", message)
    assert webhook_of(None).decide(found).code == "not-labelled"

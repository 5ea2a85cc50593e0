"""What HAMi does with a pod's amounts and cards, and what alias `hami` makes of each.

HAMi's column is that of its device and webhook code and their tests (Project-HAMi/HAMi, 4707fb02 of August
2026). Where there is nothing of the kind here, the pod is denied by name, as docs/operating/other-systems.md
says.
"""

import pytest

from ledger.ledger import Ledger
from tests.ledger.cluster import gpu_node
from tests.webhook.admission.test_aliases import GPU, MEM, MEMORY_LABEL, PERCENT, hami, limits
from tests.webhook.support import LABEL, Webhook, container, policies

CORES, PRIORITY = "nvidia.com/gpucores", "nvidia.com/priority"
COMPUTE = "clearml-injector/compute"
A100, A10, T4 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-A10", "Tesla-T4"
USE_TYPE, NO_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
USE_UUID, NO_UUID = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"
MODE, NUMA = "nvidia.com/vgpu-mode", "nvidia.com/numa-bind"
NODE_POLICY, GPU_POLICY = "hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy"
MODEL = "clearml-injector/gpu-model"


def policy(text="", gpucores="deny"):
    return policies(f"aliases: {{hami: true, gpucores: {gpucores}}}\nmemory: {{allowed: true}}\n{text}")


def decide(found, policy_set=None):
    ledger = Ledger()
    for product in (A100, A10, T4):
        node = gpu_node(product.lower(), 4)
        ledger.set_node(
            gpu_node(product.lower(), 4, labels={**node.labels, "nvidia.com/gpu.product": product})
        )
    return Webhook(policy_set or policy(), ledger).decide(found)


def test_memory_goes_before_a_percentage():
    decided = decide(hami({GPU: "1", MEM: "15000", PERCENT: "50"}))
    assert decided.stored["metadata"]["labels"] == {MEMORY_LABEL: "15000Mi"}
    assert decided.outcome.injection.alias == (
        f'{MEM} 15000 is {MEMORY_LABEL} "15000Mi"; {PERCENT} 50 is ignored'
    )


def test_a_percentage_that_hami_refuses_is_refused_with_memory_too():
    text = "101"
    decided = decide(hami({GPU: "1", MEM: "15000", PERCENT: text}))
    assert decided.code == "alias-not-allowed"
    assert decided.message.startswith(f'{PERCENT} "{text}" is not a whole number from 0 to 100')


@pytest.mark.parametrize(
    ("amounts", "labels"),
    [
        ({GPU: "1", MEM: "0", PERCENT: "50"}, {LABEL: "0.500"}),
        ({GPU: "1", PERCENT: "100"}, {LABEL: "1"}),
        ({PERCENT: "100"}, {LABEL: "1"}),
    ],
)
def test_an_amount_of_zero_is_none_and_all_memory_is_a_whole_gpu(amounts, labels):
    wide = policy('fractions: {"0.500": 4, "1": 8, "2": 16}')
    assert decide(hami(amounts), wide).stored["metadata"]["labels"] == labels


def test_cores_are_denied_by_name_unless_the_policy_says_otherwise():
    denied = decide(hami({GPU: "1", MEM: "15000", CORES: "0"}))
    assert denied.code == "alias-not-allowed"
    assert denied.message.startswith(f"policy default does not accept {CORES}:")


def test_a_priority_and_cores_that_are_ignored_are_taken_out_and_said_so():
    found = hami({GPU: "1", MEM: "15000", CORES: "30", PRIORITY: "1"})
    decided = decide(found, policy(gpucores="ignore"))
    assert limits(decided).keys() == {"nvidia.com/gpu-0"}
    assert decided.outcome.injection.alias.endswith(f"; {CORES} is ignored; {PRIORITY} is ignored")
    assert (COMPUTE in decided.annotations, "CUDA_DEVICE_SM_LIMIT" in dict(decided.env())) == (False, False)


def test_cores_become_the_limit_of_compute():
    decided = decide(hami({GPU: "1", MEM: "15000", CORES: "30"}), policy(gpucores="compute"))
    assert decided.annotations[COMPUTE] == "30"
    assert dict(decided.env())["CUDA_DEVICE_SM_LIMIT"] == "30"


@pytest.mark.parametrize(
    ("amounts", "message"),
    [
        ({MEM: "15000", CORES: "100"}, f"{CORES} 100 takes a whole card"),
        ({PERCENT: "100", CORES: "30"}, f"{CORES} 30 cannot limit whole GPUs: remove it"),
        ({MEM: "15000", CORES: "-1"}, f'{CORES} "-1" is not a whole number: fix it'),
    ],
)
def test_cores_that_have_no_match_are_denied(amounts, message):
    denied = decide(hami({GPU: "1", **amounts}), policy('fractions: {"1": 8}', "compute"))
    assert denied.code == "alias-not-allowed"
    assert denied.message.startswith(message)


@pytest.mark.parametrize(
    "amounts", [{MEM: "25000"}, {GPU: "2", MEM: "15000"}, {PERCENT: "50"}, {MEM: "15000", CORES: "50"}]
)
def test_another_amount_of_an_init_container_is_denied(amounts):
    found = hami({GPU: "1", MEM: "15000"}, initContainers=[container("w" * 63, limits=amounts)])
    denied = decide(found, policy(gpucores="compute"))
    assert (denied.code, denied.message) == (
        "alias-not-allowed",
        f'init container "{"w" * 12}..." and its pod request different shares: use the same in both',
    )


def annotated(annotations, amounts=None):
    found = hami(amounts or {GPU: "1", PERCENT: "50"})
    found["metadata"]["annotations"] = annotations
    return found


def models(decided):
    required = decided.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    return [each["values"] for each in term["matchExpressions"] if each["key"] == "nvidia.com/gpu.product"]


@pytest.mark.parametrize(
    ("said", "pattern", "taken"),
    [
        ("A100", "*A100*", [A100]),
        ("a100,T4", "*a100*,*T4*", [A100, T4]),
        # HAMi: part of the card's name, so that A10 is an A100 too.
        ("A10", "*A10*", [A10, A100]),
        (" A100 ,, T4 ", "*A100*,*T4*", [A100, T4]),
        ("NVIDIA-NVIDIA A100-SXM4-80GB", "*NVIDIA-A100-SXM4-80GB*", [A100]),
    ],
)
def test_types_of_cards_become_patterns_of_models(said, pattern, taken):
    decided = decide(annotated({USE_TYPE: said}))
    assert decided.annotations[MODEL] == pattern
    assert USE_TYPE not in decided.annotations
    assert [sorted(each) for each in models(decided)] == [sorted(taken)]


@pytest.mark.parametrize("name", [USE_TYPE, NO_TYPE, USE_UUID, NO_UUID])
def test_an_empty_list_of_cards_demands_nothing(name):
    decided = decide(annotated({name: "   "}))
    assert decided.allowed
    assert {name, MODEL}.isdisjoint(decided.annotations)


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({USE_TYPE: ","}, f'{USE_TYPE} "," does not list 1 to 8 types of cards'),
        ({USE_TYPE: "A" * 100_000}, f'{USE_TYPE} "AAAAAAAAAAAA..." does not list 1 to 8 types of cards'),
        ({NO_TYPE: "1080"}, f"{NO_TYPE} is not supported: list the accepted types in {USE_TYPE}"),
        ({USE_UUID: "GPU-1"}, f"{USE_UUID} is not supported, since pods cannot choose their card: remove it"),
        ({MODE: "mig"}, f'{MODE} "mig": policy default provides hami-core: remove it, or ask the admin'),
        ({NODE_POLICY: "spread"}, f'{NODE_POLICY} "spread" differs from the placement of policy default'),
        ({GPU_POLICY: "numa"}, f'{GPU_POLICY} "numa" differs from the placement of policy default'),
        ({NUMA: "true"}, f"{NUMA} is not supported: remove it"),
    ],
)
def test_what_has_no_match_here_is_denied_by_name(annotations, message):
    decided = decide(annotated(annotations))
    assert decided.code == "alias-not-allowed"
    assert decided.message.startswith(message)


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({MODE: "hami-core"}, ""),
        ({NODE_POLICY: "binpack", GPU_POLICY: "binpack"}, ""),
        ({NODE_POLICY: "spread", GPU_POLICY: "spread"}, "place: spread"),
        ({NUMA: "false"}, ""),
    ],
)
def test_what_is_so_anyway_is_taken_out(annotations, text):
    decided = decide(annotated(annotations), policy(text))
    assert decided.allowed, decided.message
    assert decided.annotations.keys().isdisjoint(annotations)


@pytest.mark.parametrize(
    ("mode", "is_given"), [("mig", False), ("hami-core", False), ("hami-core,mig", True)]
)
def test_where_room_decides_a_pod_must_take_both_modes(mode, is_given):
    both = policy("resources: {prefer: [mig, per-gpu]}")
    assert decide(annotated({MODE: mode}), both).allowed is is_given

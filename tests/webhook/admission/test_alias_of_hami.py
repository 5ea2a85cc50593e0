"""What HAMi does with a pod's amounts and cards, and what alias `hami` makes of each.

HAMi's column is that of its device and webhook code and their tests (Project-HAMi/HAMi, 4707fb02 of August
2026). Where there is nothing of the kind here, the pod is denied by name, as docs/operating/other-systems.md
says.
"""

import pytest

from tests.ledger.cluster import gpu_node
from tests.webhook.admission.test_aliases import (
    GPU,
    HAMI,
    MEM,
    MEMORY_LABEL,
    PERCENT,
    check_denied,
    hami,
    labels,
    limits,
)
from tests.webhook.support import LABEL, container, pod, policies
from tests.webhook.support.gpu_pods import webhook_of

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


def decide(found, policy_set=HAMI):
    nodes = [gpu_node(product.lower(), 4) for product in (A100, A10, T4)]
    for node, product in zip(nodes, (A100, A10, T4), strict=True):
        node.labels["nvidia.com/gpu.product"] = product
    return webhook_of(*nodes, policy_set=policy_set).decide(found)


def test_memory_goes_before_a_percentage():
    decided = decide(hami({GPU: "1", MEM: "15000", PERCENT: "50"}))
    assert labels(decided) == {MEMORY_LABEL: "15000Mi"}
    said = f'{MEM} 15000 is {MEMORY_LABEL} "15000Mi"; {PERCENT} 50 is ignored'
    assert decided.outcome.injection.alias == said


@pytest.mark.parametrize(
    ("amounts", "label"),
    [
        ({GPU: "1", MEM: "0", PERCENT: "50"}, {LABEL: "0.500"}),
        ({GPU: "1", PERCENT: "100"}, {LABEL: "1"}),
        ({PERCENT: "100"}, {LABEL: "1"}),
        # As the API server writes it.
        *(({GPU: "1", MEM: written}, {MEMORY_LABEL: "3000Mi"}) for written in ("3k", "3000", 3000, "3e3")),
    ],
)
def test_an_amount_of_zero_is_none_and_all_memory_is_a_whole_gpu(amounts, label):
    wide = policy('fractions: {"0.500": 4, "1": 8, "2": 16}')
    assert labels(decide(hami(amounts), wide)) == label


def test_memory_leaves_the_pod_with_its_whole_gpus():
    decided = decide(hami({GPU: "2", MEM: "15000", "cpu": "1"}))
    assert labels(decided) == {MEMORY_LABEL: "15000Mi"}
    assert limits(decided) == {"cpu": "1", "nvidia.com/gpu-0": "2", "nvidia.com/gpu-1": "2"}
    assert decided.container()["resources"]["requests"] == limits(decided)


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


@pytest.mark.parametrize("written", [{GPU: "1", MEM: "15000"}, {MEM: "15000"}, {MEM: "15k"}])
def test_an_init_container_gets_the_same_share_of_the_same_gpu(written):
    inits = [container("plain"), container("warm", limits=written)]
    decided = decide(hami({GPU: "1", MEM: "15000"}, initContainers=inits))
    assert limits(decided, "warm") == limits(decided) == {"nvidia.com/gpu-0": "2"}
    assert dict(decided.env("warm"))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "15000m"
    assert decided.container("warm")["resources"]["requests"] == {"nvidia.com/gpu-0": "2"}
    assert dict(decided.env("plain")) == {"NVIDIA_VISIBLE_DEVICES": "void"}


def annotated(annotations):
    return hami({GPU: "1", PERCENT: "50"}, metadata={"annotations": annotations})


def with_init(amounts):
    return hami({GPU: "1", MEM: "15000"}, initContainers=[container("w" * 63, limits=amounts)])


TWO = hami({GPU: "1", MEM: "100"}, container("second", limits={GPU: "1", MEM: "100"}))
ONLY_INIT = pod(fraction=None, initContainers=[container("warm", limits={GPU: "1", MEM: "100"})])
DIFFERENT = f'init container "{"w" * 12}..." and its pod request different shares: use the same in both'
NO_CHOICE = "is not supported, since pods cannot choose their card: remove it"
DIFFERS = "differs from the placement of policy default: remove it, or ask the admin"


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (hami({GPU: "1", MEM: "15000", CORES: "0"}), f"policy default does not accept {CORES}:"),
        (hami({MEM: "15000", PERCENT: "101"}), f'{PERCENT} "101" is not a whole number from 0 to 100'),
        (hami({GPU: "1", MEM: "1G"}), f'{MEM} "1G" is not a whole number of MiB'),
        (hami({PERCENT: "33"}), f'{PERCENT} "33" is not a fraction of policy default: use 25, 50, 75, or'),
        (
            TWO,
            'containers "train" and "second" both request HAMi resources: use only one of them, or use our',
        ),
        (ONLY_INIT, f"only init containers request {MEM}: request it in a regular container"),
        (with_init({MEM: "25000"}), DIFFERENT),
        (with_init({GPU: "2", MEM: "15000"}), DIFFERENT),
        (with_init({PERCENT: "50"}), DIFFERENT),
        (with_init({MEM: "15000", CORES: "50"}), DIFFERENT),
        (annotated({USE_TYPE: ","}), f'{USE_TYPE} "," does not list 1 to 8 types of cards'),
        (annotated({USE_TYPE: "A" * 100_000}), f'{USE_TYPE} "AAAAAAAAAAAA..." does not list 1 to 8 types'),
        (annotated({NO_TYPE: "1080"}), f"{NO_TYPE} is not supported: list the accepted types in {USE_TYPE}"),
        (annotated({USE_UUID: "GPU-1"}), f"{USE_UUID} {NO_CHOICE}"),
        (annotated({MODE: "mig"}), f'{MODE} "mig": policy default provides hami-core: remove it, or ask'),
        (annotated({NODE_POLICY: "spread"}), f'{NODE_POLICY} "spread" {DIFFERS}'),
        (annotated({GPU_POLICY: "numa"}), f'{GPU_POLICY} "numa" {DIFFERS}'),
        (annotated({NUMA: "true"}), f"{NUMA} is not supported: remove it"),
        (
            pod(fraction=None, metadata={"annotations": {MEM: "4096"}}),
            f"annotation {MEM} has no effect: write it in resources.limits of a container",
        ),
    ],
)
def test_what_has_no_match_here_is_denied_by_name(found, message):
    check_denied(HAMI, found, message)


@pytest.mark.parametrize(
    ("amounts", "message"),
    [
        ({MEM: "15000", CORES: "100"}, f"{CORES} 100 takes a whole card"),
        ({PERCENT: "100", CORES: "30"}, f"{CORES} 30 cannot limit whole GPUs: remove it"),
        ({MEM: "15000", CORES: "-1"}, f'{CORES} "-1" is not a whole number: fix it'),
    ],
)
def test_cores_that_have_no_match_are_denied(amounts, message):
    check_denied(policy('fractions: {"1": 8}', "compute"), hami({GPU: "1", **amounts}), message)


@pytest.mark.parametrize(
    ("said", "pattern", "taken"),
    [
        ("a100,T4", "*a100*,*T4*", [A100, T4]),
        # HAMi: part of the card's name, so that A10 is an A100 too.
        ("A10", "*A10*", [A10, A100]),
        (" A100 ,, T4 ", "*A100*,*T4*", [A100, T4]),
        ("NVIDIA-NVIDIA A100-SXM4-80GB", "*NVIDIA-A100-SXM4-80GB*", [A100]),
    ],
)
def test_types_of_cards_become_patterns_of_models(said, pattern, taken):
    decided = decide(annotated({USE_TYPE: said}))
    assert (decided.annotations[MODEL], USE_TYPE in decided.annotations) == (pattern, False)
    assert sorted(decided.outcome.injection.placement.products) == sorted(taken)


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        *(({name: "   "}, "") for name in (USE_TYPE, NO_TYPE, USE_UUID, NO_UUID)),
        ({MODE: "hami-core"}, ""),
        ({NODE_POLICY: "binpack", GPU_POLICY: "binpack"}, ""),
        ({NODE_POLICY: "spread", GPU_POLICY: "spread"}, "place: spread"),
        ({NUMA: "false"}, ""),
    ],
)
def test_what_demands_nothing_or_is_so_anyway_is_taken_out(annotations, text):
    decided = decide(annotated(annotations), policy(text))
    assert decided.allowed, decided.message
    assert decided.annotations.keys().isdisjoint({*annotations, MODEL})


@pytest.mark.parametrize(
    ("mode", "is_given"), [("mig", False), ("hami-core", False), ("hami-core,mig", True)]
)
def test_where_room_decides_a_pod_must_take_both_modes(mode, is_given):
    both = policy("resources: {prefer: [mig, per-gpu]}")
    assert decide(annotated({MODE: mode}), both).allowed is is_given

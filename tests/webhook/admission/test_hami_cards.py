"""HAMi's annotations about cards: those that have a match here, and those that are denied by name.

What HAMi does is that of its device code and its tests (Project-HAMi/HAMi, 4707fb02 of August 2026).
"""

import pytest

from tests.webhook.admission.test_alias_of_hami import A10, A100, T4, decide, policy
from tests.webhook.admission.test_aliases import GPU, PERCENT, hami

USE_TYPE, NO_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
USE_UUID, NO_UUID = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"
MODE, NUMA = "nvidia.com/vgpu-mode", "nvidia.com/numa-bind"
NODE_POLICY, GPU_POLICY = "hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy"
MODEL = "clearml-injector/gpu-model"


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
        ("Tesla T4", "*Tesla-T4*", [T4]),
    ],
)
def test_types_of_cards_become_patterns_of_models(said, pattern, taken):
    decided = decide(annotated({USE_TYPE: said}))
    assert decided.annotations[MODEL] == pattern
    assert USE_TYPE not in decided.annotations
    assert [sorted(each) for each in models(decided)] == [sorted(taken)]


@pytest.mark.parametrize("name", [USE_TYPE, NO_TYPE, USE_UUID, NO_UUID])
@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_list_of_cards_demands_nothing(name, text):
    decided = decide(annotated({name: text}))
    assert decided.allowed
    assert {name, MODEL}.isdisjoint(decided.annotations)


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({USE_TYPE: ","}, f'{USE_TYPE} "," does not list 1 to 8 types of cards'),
        ({USE_TYPE: "A/B"}, f'{USE_TYPE} "A/B" does not list 1 to 8 types of cards'),
        ({USE_TYPE: "A" * 100_000}, f'{USE_TYPE} "AAAAAAAAAAAA..." does not list 1 to 8 types of cards'),
        ({NO_TYPE: "1080"}, f"{NO_TYPE} is not supported: list the accepted types in {USE_TYPE}"),
        ({USE_UUID: "GPU-1"}, f"{USE_UUID} is not supported, since pods cannot choose their card: remove it"),
        ({MODE: "mig"}, f'{MODE} "mig": policy default provides hami-core: remove it, or ask the admin'),
        (
            {NODE_POLICY: "spread"},
            (f'{NODE_POLICY} "spread" differs from the placement of policy default: remove it'),
        ),
        (
            {GPU_POLICY: "binpack,numa"},
            (f'{GPU_POLICY} "binpack,numa" differs from the placement of policy default'),
        ),
        ({NUMA: "true"}, f"{NUMA} is not supported: remove it"),
    ],
)
def test_what_has_no_match_here_is_denied_by_name(annotations, message):
    decided = decide(annotated(annotations))
    assert decided.code == "alias-not-allowed"
    assert decided.message.startswith(message) or message in decided.message


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

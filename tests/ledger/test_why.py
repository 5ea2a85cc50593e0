"""What is said of a pod that somebody asks about."""

import dataclasses

import pytest

from controller.watch.resources import Owner
from kube.names import QUOTA_GATE
from ledger.free_nodes import FreeNodes
from ledger.quoted_text import MAX_QUOTED
from ledger.why import PodSummary, why
from modes.facts import PodFact
from modes.units import POOL, Profile

FACT = PodFact(namespace="team", name="train", takes=((3, 4),), memory_values=("81920",))
WAITING = PodSummary(
    fact=FACT, asked="0.500", policy="default", memory_mib="40960", waited_seconds=720, lacks_slices=True
)
FULL = FreeNodes((("gpu-0", 2), ("gpu-1", 1)), 3)
ELSEWHERE = FreeNodes((("gpu-0", 2),), 0, ("gpu-0", 5, 4))
ASKED = (
    'Pod team/train requested clearml-injector/fraction "0.500". Policy "default" gives it 4 slices of GPU 3'
    " on a node with GPUs of 81920 MiB, limited to 40960 MiB."
)


def explained(summary=WAITING, **changes):
    return why(dataclasses.replace(summary, **changes))


def of_fact(**changes):
    return PodFact(**{"namespace": "team", "name": "train", "takes": ((3, 4),), **changes})


def test_a_pod_on_a_full_gpu_learns_what_it_asked_what_it_waits_for_and_what_would_help():
    assert explained(free=FULL) == (
        f"{ASKED} It has waited for 12 minutes and has no node yet. It needs 4 slices of GPU 3 on a node with"
        " GPUs of 81920 MiB. Free now: gpu-0: 2, gpu-1: 1, and 3 more nodes. It starts when pods there end;"
        " a share of 2 slices would start now on gpu-0."
    )


@pytest.mark.parametrize(
    ("owner", "advice"),
    [
        (None, "delete the pod and create it again"),
        (Owner(kind="Job", name="fit"), "delete Job fit and create it again"),
        (Owner(kind="ReplicaSet", name="web-1"), "delete the pod, so that ReplicaSet web-1 creates another"),
    ],
)
def test_another_gpu_with_room_is_named_with_the_way_to_it(owner, advice):
    said = explained(free=ELSEWHERE, owner=owner)
    assert said.endswith(f"GPU 5 of gpu-0 has 4 free: {advice} to use it.")


@pytest.mark.parametrize(
    ("asks_model", "by"),
    [
        (True, "clearml-injector/gpu-model"),
        (False, "sameModel of its policy, or its own affinity"),
        (None, "clearml-injector/gpu-model, sameModel of its policy, or its own affinity"),
    ],
)
def test_what_requires_a_model_is_named_as_far_as_it_is_known(asks_model, by):
    said = explained(fact=of_fact(products=("A100",)), asks_model=asks_model)
    assert f"and model A100 (required by {by})" in said


def test_a_waiting_pod_learns_what_did_not_count_when_its_gpu_was_chosen():
    without = "Its GPU was chosen without its volumes"
    assert without in explained(lacks_slices=False, scheduler_says="no node", not_considered="volumes")
    assert without not in explained(fact=of_fact(takes=((POOL, 4),)), not_considered="volumes")


@pytest.mark.parametrize("kind", ["Job", "Other\nTeam"])
def test_an_owner_that_the_pod_s_author_made_up_neither_begins_a_line_nor_fills_the_screen(kind):
    owner = Owner(kind=kind, name="fit and create it.\nPod admin/all is well." + "x" * 100_000)
    said = explained(free=ELSEWHERE, owner=owner)
    assert "\n" not in said
    assert len(said) < 2000
    assert "\n" not in explained(phase="Failed", owner=owner)


def test_without_the_ledger_the_scheduler_is_quoted():
    said = explained(free=None, scheduler_says="0/3 nodes are available: 3 Insufficient nvidia.com/gpu-3.")
    assert (
        "The scheduler reports: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu-3. It starts when"
        in said
    )
    assert said.endswith("Users that may read GpuLedgers see which GPUs have room.")


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"free": FreeNodes((), 0)}, "no node that takes pods now has such GPUs"),
        ({"free": FreeNodes((("gpu-0", 6),), 0, has_room=True)}, "waits for the scheduler to try again"),
        ({"lacks_slices": False}, "The scheduler has not tried to place it yet"),
        ({"lacks_slices": False, "scheduler_says": "1 Insufficient cpu"}, "reports: 1 Insufficient cpu. Fix"),
        ({"gates": ("kueue.x-k8s.io/admission",)}, "Kueue removes its gate when the queue has quota: see"),
        ({"fact": of_fact(takes=((0, 4), (1, 4)))}, "and 4 slices of GPU 1, limited to 40960 MiB each."),
        ({"memory_mib": None, "by_agent": True}, "limited by its node's agent to the MiB of these slices"),
        ({"free": FreeNodes(not_compared=True)}, "or tolerations are too long to compare with all nodes"),
        ({"is_terminating": True}, "being deleted"),
        (
            {"phase": "Failed", "trouble": "UnexpectedAdmissionError: no"},
            "(Failed) and holds nothing. Cause: UnexpectedAdmissionError: no.",
        ),
        ({"fact": of_fact(is_over=True), "phase": "Succeeded"}, "ended (Succeeded) and holds nothing."),
        ({"fact": of_fact(node="n"), "phase": "Running"}, "It runs on node n."),
        (
            {"fact": of_fact(node="n"), "trouble": "ImagePullBackOff: gone"},
            "do not run: ImagePullBackOff: gone",
        ),
        ({"fact": of_fact(node="n")}, "is starting its containers"),
        ({"drift": "the annotation says GPU 1"}, "Warning: the annotation says GPU 1."),
        ({"policy": None}, "Delete it and create it again while the injector runs"),
        ({"policy": None}, 'has the label clearml-injector/fraction "0.500", but was never injected'),
        ({"asked": None}, "has no label clearml-injector/fraction, so the injector did not change it"),
    ],
)
def test_each_state_of_a_pod_has_its_words(changes, fragment):
    assert fragment in explained(**{"free": FULL, **changes})


def test_texts_of_others_are_one_line_and_no_longer_than_there_is_room():
    said = explained(scheduler_says="a\n\nb " + "x" * 100_000, lacks_slices=False)
    assert "\n" not in said
    assert len(said) < 3 * MAX_QUOTED
    assert "The scheduler reports: a b xxx" in said


A100, H100 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"


@pytest.mark.parametrize(
    ("fact", "needed"),
    [
        (
            of_fact(takes=((Profile(1, 10), 1),), products=(A100, H100)),
            f"1 MIG instance of nvidia.com/mig-1g.10gb on {A100} or {H100}",
        ),
        (
            of_fact(takes=((POOL, 1),), products=(f"{A100}-MIG-1g.10gb",)),
            f"1 MIG instance of nvidia.com/gpu on {A100}-MIG-1g.10gb",
        ),
        (of_fact(takes=((Profile(2, 20), 1),)), "1 MIG instance of nvidia.com/mig-2g.20gb"),
    ],
    ids=["two models", "strategy single", "any model"],
)
def test_a_pod_that_waits_for_a_mig_instance_learns_which_and_on_which_models(fact, needed):
    said = explained(fact=fact, memory_mib=None, free=FreeNodes((("mig-1", 0),), 0))
    assert f"It needs {needed}. Free now: mig-1: 0." in said
    assert "slices" not in said
    absent = explained(fact=fact, free=FreeNodes((), 0))
    assert absent.endswith(
        "Ask the admin whether such a node is cordoned, not ready, deleted or not divided yet."
    )


def test_nodes_that_the_pods_own_demands_leave_out_are_named_and_not_counted_as_free():
    none_left = FreeNodes((), 0, shut_out=2)
    said = explained(free=none_left, scheduler_says="0/2 nodes are available")
    assert (
        "It needs 4 slices of GPU 3 on a node with GPUs of 81920 MiB. 2 nodes have such GPUs, but the pod's"
        " nodeSelector, affinity or tolerations exclude them. The scheduler reports: 0/2 nodes are"
        " available. What would help: change these if its manifest has them, then delete the pod and create"
        " it again."
    ) in said
    assert "cordoned" not in said
    said = explained(free=dataclasses.replace(FULL, shut_out=1))
    rule = "but the pod's nodeSelector, affinity or tolerations exclude them"
    assert f"1 more node has such GPUs, {rule}." in said


def test_a_division_under_way_is_reported_instead_of_why_there_is_none():
    said = explained(dividing=("gpu-1", "gpu-2"), division="goes to others first")
    assert said.endswith("Cards of gpu-1, gpu-2 are being divided now: wait, pods can go there afterwards.")
    assert "goes to others first" not in said
    assert "being divided" not in explained(dividing=("gpu-1",), gates=("quota",))


def test_a_pod_that_waits_for_a_quota_learns_the_rule_and_its_place():
    said = explained(gates=(QUOTA_GATE,), quota_line="3 of 9 in the line of the quota of namespace ml")
    assert said.endswith(
        "It has scheduling gates (clearml-injector/quota): the scheduler ignores it until they are removed. "
        "The injector removes it when the pod's quota has room: by priority, then by age. "
        "The injector reports its place: 3 of 9 in the line of the quota of namespace ml."
    )
    others = explained(gates=("example.com/wait", QUOTA_GATE))
    assert "when the others are gone and the pod's quota has room." in others

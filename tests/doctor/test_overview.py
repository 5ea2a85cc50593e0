"""Whether all is well: one line for each part, with what is wrong first, and figures for scripts."""

import dataclasses
from datetime import timedelta

import pytest

from controller.watch.agent_taint import NodeTaints
from describe.policy_status import Figures, PolicyStatus, ServedBy
from doctor.finding import CERTIFICATES_ADVICE
from doctor.overview import overview
from doctor.seen import AgentSet, NotRead, WebhookEntry
from kube.names import AGENT_TAINT
from tests.doctor.support import NOW, in_force, node, says, seen, served

ABOUT = ["webhook", "controller", "certificates", "policies", "agents", "nodes", "slices", "waiting"]
FIGURES = Figures(gpus=35, slices=280, used=261, free=19, waiting=12)
ENDS = (NOW + timedelta(days=61, hours=1)).timestamp()


def status(**changed):
    leader = ServedBy("controller-a", "controller", "new", leads=True, certificate_ends=ENDS)
    found = in_force("new", served(certificate_ends=ENDS), leader, reported={"new": 1})
    found = dataclasses.replace(found, figures=FIGURES)
    return dataclasses.replace(found, **changed)


def lines(**changed):
    return {line.about: line for line in overview(seen(**{"policies": status(), **changed}))}


def test_a_sound_installation_is_a_line_for_each_part():
    found = lines()
    assert list(found) == ABOUT
    assert {line.level for line in found.values()} == {"ok"}
    assert {about: line.what for about, line in found.items()} == {
        "webhook": "1 of 1 answer",
        "controller": "controller-a leads; 1 of 1 answer",
        "certificates": "the first one expires in 61 days",
        "policies": "new are in force everywhere (controllers: 1, webhooks: 1)",
        "agents": "1 are registered with their kubelets",
        "nodes": "none are held for their agent",
        "slices": "19 of 280 slices are free for new pods, on 35 GPUs",
        "waiting": "pods wait for 12 slices",
    }
    assert found["slices"].facts == {"gpus": 35, "slices": 280, "used": 261, "free": 19}
    assert found["waiting"].facts == {"slices": 12}


@pytest.mark.parametrize(
    ("about", "level", "says_so", "changed"),
    [
        ("webhook", "failed", "Service fraction-injector-webhook has no ready endpoint", {"endpoints": ()}),
        ("webhook", "failed", "is missing or empty", {"webhook": None}),
        ("controller", "failed", "does not exist", {"lease": None}),
        ("controller", "skipped", "you lack the right", {"lease": NotRead("you lack the right")}),
        (
            "certificates",
            "warning",
            "the certificate of webhook-a expires in 6 days",
            {
                "policies": status(
                    served=(served(certificate_ends=(NOW + timedelta(days=6, hours=1)).timestamp()),)
                )
            },
        ),
        (
            "certificates",
            "failed",
            "the certificate of webhook-a has expired",
            {"policies": status(served=(served(certificate_ends=NOW.timestamp()),))},
        ),
        (
            "policies",
            "failed",
            "pod webhook-a does not serve the policies: it serves 0ld",
            {"policies": status(served=(served("0ld"),))},
        ),
        ("agents", "failed", "2 pods of DaemonSet", {"agents": AgentSet(3, 1)}),
        (
            "agents",
            "failed",
            "is not registered",
            {"reports": {"gpu-1": says(registered=False, missing="x")}},
        ),
        ("nodes", "warning", AGENT_TAINT, {"nodes": (node(taints=NodeTaints(ours="NoSchedule")),)}),
        ("slices", "skipped", "no leading controller answers", {"policies": status(figures=None)}),
        ("slices", "warning", "no node offers slices", {"policies": status(figures=Figures())}),
        ("waiting", "skipped", "no leading controller answers", {"policies": status(figures=None)}),
    ],
)
def test_what_is_wrong_with_a_part_is_its_line(about, level, says_so, changed):
    line = lines(**changed)[about]
    assert line.level == level
    assert says_so in line.what


def test_the_worst_problem_of_a_part_is_shown_and_the_others_are_counted():
    ends = tuple(served(certificate_ends=(NOW + timedelta(days=days)).timestamp()) for days in (2, -1, 3))
    line = lines(policies=status(served=ends))["certificates"]
    assert (line.level, line.advice) == ("failed", CERTIFICATES_ADVICE)
    assert line.what.startswith("the certificate of webhook-a has expired (and 2 more")


def test_a_cluster_without_agents_and_a_webhook_outside_are_well():
    elsewhere = WebhookEntry("Fail", b"", "https://elsewhere/mutate")
    outside = lines(agents=None, agent_pods=(), reports={}, webhook=elsewhere)
    assert (outside["agents"].level, outside["agents"].what) == ("ok", "none are installed")
    assert (outside["webhook"].level, outside["webhook"].what) == ("ok", "runs outside of the cluster")


def test_an_installation_that_is_not_there_is_a_failure_in_every_part_that_needs_it():
    gone = NotRead("ConfigMap n/p does not exist", "failed", "install it")
    found = lines(policies=gone)
    assert [about for about in ABOUT if found[about].level == "failed"] == [
        "webhook",
        "controller",
        "certificates",
        "policies",
        "slices",
        "waiting",
    ]
    assert found["slices"].advice == "install it"


def test_scripts_get_what_each_process_serves():
    facts = lines()["policies"].facts
    assert (facts["inForce"], facts["digest"]) == (True, "new")
    assert [(each["pod"], each["digest"], each["leads"]) for each in facts["served"]] == [
        ("webhook-a", "new", False),
        ("controller-a", "new", True),
    ]
    assert isinstance(status(), PolicyStatus)

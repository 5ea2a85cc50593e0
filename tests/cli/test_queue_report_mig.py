"""`check` of queues whose pods get MIG instances, by our label, by name, or both."""

import pytest

from tests.cli.running import run
from tests.policies.console import ROOT

INVENTORY = ROOT / "examples" / "mig" / "inventory.yaml"
HEAD = "chart: the Enterprise ClearML agent's; the open one does not read agentk8sglue.queues"

QUEUE = "queue q (values.yaml:3):"


def check(folder, *, resources="{mode: mig}", labels="", limits=""):
    (folder / "policies").mkdir(parents=True)
    (folder / "policies" / "default.yaml").write_text(
        f"kind: Policy\nname: default\nresources: {resources}\n"
    )
    template = f"labels: {{{labels}}}, resources: {{limits: {{{limits}}}}}"
    values = folder / "values.yaml"
    queue = f"q: {{templateOverrides: {{{template}}}, queueSettings: {{maxPods: 3}}}}"
    values.write_text(f"agentk8sglue:\n  queues:\n    {queue}\n")
    return run("check", values, "--policies", folder / "policies", "--inventory", INVENTORY)


HALF = 'clearml-injector/fraction: "0.500"'


def test_a_native_request_without_our_label_is_left_alone_and_counted(tmp_path):
    code, out, err = check(tmp_path, limits="nvidia.com/mig-1g.10gb: 2")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        HEAD,
        f"{QUEUE} no fraction label, its pods are not changed; counted are nvidia.com/mig-1g.10gb: 2",
        "  maxPods 3; of the inventory: 2 such pods fit into it when it is empty; the rest will wait",
    ]


def test_a_native_request_with_our_label_is_taken_as_asked_for(tmp_path):
    code, out, err = check(tmp_path, labels=HALF, limits="nvidia.com/mig-3g.40gb: 1")
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [
        f'{QUEUE} label "0.500" is the smallest MIG instance of at least 4 of 8 slices of its card',
        "  policy default, no limiter, as MIG instances are limited by the hardware",
        "  taken as asked for: nvidia.com/mig-3g.40gb: 1",
        "  maxPods 3; of the inventory: 1 such pods fit into it when it is empty; the rest will wait",
    ]


@pytest.mark.parametrize(
    ("resources", "fit"), [("{mode: mig}", 4), ("{prefer: [mig, per-gpu]}", 12), ("{mode: per-gpu}", 8)]
)
def test_what_fits_is_counted_in_instances_and_slices(tmp_path, resources, fit):
    code, out, _ = check(tmp_path, resources=resources, labels='clearml-injector/fraction: "0.125"')
    assert code == 0
    assert f"{fit} such pods fit into it" in out


def test_an_instance_that_is_smaller_on_another_card_is_counted_where_it_holds_the_label(tmp_path):
    code, out, _ = check(
        tmp_path, labels='clearml-injector/fraction: "0.250"', limits="nvidia.com/mig-1g.10gb: 1"
    )
    assert code == 0
    # A quarter of an A100 40GB, and an eighth of the A100 80GB that there is.
    assert "0 such pods fit into it" in out


@pytest.mark.parametrize(
    ("labels", "limits", "message"),
    [
        (
            HALF,
            "nvidia.com/mig-3g.40gb: 1, nvidia.com/mig-4g.40gb: 1",
            "nvidia.com/mig-3g.40gb and nvidia.com/mig-4g.40gb are two MIG instances, but a share is one",
        ),
        (
            HALF,
            "nvidia.com/mig-3g.40gb: 2",
            "nvidia.com/mig-3g.40gb: 2 does not match clearml-injector",
        ),
    ],
)
def test_what_no_pod_could_get_is_a_mistake(tmp_path, labels, limits, message):
    code, _, err = check(tmp_path, labels=labels, limits=limits)
    assert code == 1
    assert message in err

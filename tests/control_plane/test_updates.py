"""What users do to a labelled pod other than creating it once."""

import json
import re

import yaml

from testbed.gpu_nodes import GpuNode
from testbed.kubernetes_version import REFUSALS_SHOW_JSON
from testbed.registration import LABEL, labelled_pod
from tests.control_plane.test_manifests import MANIFESTS

GPU_INDEX = "clearml-injector/gpu-index"
TASK = "clearml-id-f1e2d3c4b5a697887766554433221100"
SPEC_IS_FIXED = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"


def index_of(pod):
    return pod["metadata"]["annotations"][GPU_INDEX]


def test_server_side_apply_is_admitted_without_a_word(nodes, webhook, kubectl):
    nodes(GpuNode(gpus=2))
    webhook()
    answer = kubectl("apply", "--server-side", f"--filename={MANIFESTS['clearml-half']}")
    assert (answer.code, answer.stdout, answer.stderr) == (0, f"pod/{TASK} serverside-applied\n", "")


def test_dry_runs_leave_the_ledger_as_it_was(nodes, webhook, control_plane, namespace):
    nodes(GpuNode(gpus=2))
    webhook()

    def place(name, *, dry_run):
        return index_of(control_plane.api.create(labelled_pod(name, "0.875"), namespace, dry_run=dry_run))

    assert [place("dry", dry_run=True) for _ in range(4)] == ["0"] * 4
    assert place("first", dry_run=False) == "0"
    assert [place("dry", dry_run=True) for _ in range(4)] == ["1"] * 4
    assert place("second", dry_run=False) == "1"


def test_a_label_added_to_an_existing_pod_changes_nothing_else(
    nodes, webhook, kubectl, control_plane, namespace
):
    nodes(GpuNode())
    webhook()
    pod = labelled_pod("plain")
    del pod["metadata"]["labels"]
    before = control_plane.api.create(pod, namespace)
    answer = kubectl("label", "pod", "plain", f"{LABEL}=0.500")
    assert (answer.code, answer.stdout, answer.stderr) == (0, "pod/plain labeled\n", "")
    after = control_plane.api.get("Pod", "plain", namespace)
    assert after["metadata"]["labels"] == {LABEL: "0.500"}
    assert "annotations" not in after["metadata"]
    assert after["spec"]["containers"] == before["spec"]["containers"]


def test_a_changed_label_leaves_the_share_as_it_was(nodes, webhook, kubectl, control_plane, namespace):
    nodes(GpuNode())
    webhook()
    before = control_plane.api.create(labelled_pod("task", "0.250"), namespace)
    answer = kubectl("label", "--overwrite", "pod", "task", f"{LABEL}=0.750")
    assert (answer.code, answer.stdout, answer.stderr) == (0, "pod/task labeled\n", "")
    after = control_plane.api.get("Pod", "task", namespace)
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert after["spec"]["containers"] == before["spec"]["containers"]


def test_a_pod_with_a_gpu_limit_applied_again_is_refused_by_the_api_server(nodes, webhook, kubectl):
    nodes(GpuNode(gpus=2))
    webhook()
    assert kubectl("apply", f"--filename={MANIFESTS['clearml-half']}").code == 0
    answer = kubectl("apply", f"--filename={MANIFESTS['clearml-half']}")
    assert (answer.code, answer.stdout) == (1, "")
    assert answer.stderr.startswith(f'The Pod "{TASK}" is invalid:')
    assert SPEC_IS_FIXED in answer.stderr


def test_a_pod_with_the_label_alone_applied_again_is_unchanged(nodes, webhook, kubectl):
    nodes(GpuNode(gpus=2))
    webhook()
    assert kubectl("apply", f"--filename={MANIFESTS['bare']}").code == 0
    answer = kubectl("apply", f"--filename={MANIFESTS['bare']}")
    assert (answer.code, answer.stdout, answer.stderr) == (0, "pod/bare unchanged\n", "")


def test_a_job_with_a_fraction_resource_applied_again_is_refused_by_the_api_server(nodes, webhook, kubectl):
    nodes(GpuNode(gpus=2, product="A100-SXM4-80GB"))
    webhook()
    assert kubectl("apply", f"--filename={MANIFESTS['job-with-fraction-resource']}").code == 0
    answer = kubectl("apply", f"--filename={MANIFESTS['job-with-fraction-resource']}")
    assert (answer.code, answer.stdout) == (1, "")
    assert answer.stderr.startswith('The Job "clearml-id-job" is invalid:')
    half = '"500m"' if REFUSALS_SHOW_JSON else r"resource\.Quantity\{.*\}"
    assert re.search(
        rf"limits\[clear\.ml/fraction-1]: Invalid value: {half}: must be an integer", answer.stderr
    )
    assert "spec.template: Invalid value:" in answer.stderr
    assert answer.stderr.endswith("field is immutable\n")


def test_a_pod_stored_by_us_and_created_again_from_its_own_yaml_is_admitted(
    nodes, webhook, kubectl, control_plane, namespace
):
    nodes(GpuNode(gpus=2))
    webhook()
    control_plane.api.create(labelled_pod("task", "0.500"), namespace)
    stored = yaml.safe_load(kubectl("get", "pod", "task", "--output=yaml").stdout)
    for field in ("nodeName", "serviceAccount", "serviceAccountName"):
        stored["spec"].pop(field, None)
    stored["metadata"] = {
        "name": "copy",
        "labels": stored["metadata"]["labels"],
        "annotations": stored["metadata"]["annotations"],
    }
    answer = kubectl("create", "--filename=-", stdin=json.dumps(stored))
    assert (answer.code, answer.stdout, answer.stderr) == (0, "pod/copy created\n", "")

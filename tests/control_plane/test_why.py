"""`fraction-injector why` and `ledger` for a plain user of one namespace, on a real API server."""

from functools import partial

import pytest
import yaml

from testbed import components
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.product import POLICIES
from testbed.registration import labelled_pod
from tests.cli.running import run


def viewer(control_plane, namespace, tmp_path):
    """The kubeconfig of somebody who has the cluster's role `view` in a namespace, and nothing else."""
    here = f"--namespace={namespace}"
    control_plane.kubectl(here, "create", "serviceaccount", "viewer")
    bound = ("--clusterrole=view", f"--serviceaccount={namespace}:viewer")
    control_plane.kubectl(here, "create", "rolebinding", "viewer", *bound)
    token = control_plane.kubectl(here, "create", "token", "viewer").stdout.strip()
    file = tmp_path / "viewer"
    components.write_kubeconfig(control_plane.home, control_plane.url, file, token)
    return file


@pytest.fixture
def as_viewer(control_plane, namespace, tmp_path):
    file = viewer(control_plane, namespace, tmp_path)
    return lambda *words: run(*words, "--namespace", namespace, "--kubeconfig", file)


def until_said(why, name, text):
    """The answer, once it holds a text: the API server's Events come a moment later."""

    def said():
        ended = why(name)
        return ended if text in ended.stdout else None

    return eventually(said, f"why {name} says {text}")


def test_the_job_of_the_readme_is_accepted_and_its_pods_are_explained_as_the_readme_says(
    control_plane, namespace, nodes, webhook, as_viewer
):
    nodes(GpuNode(gpus=1))
    webhook()
    job = yaml.safe_load((POLICIES.parent / "examples" / "denied" / "train.yaml").read_text())
    control_plane.api.create(job, namespace)

    ended = until_said(partial(as_viewer, "why"), "train", "It was rejected")
    assert f"Job {namespace}/train could not create a pod." in ended.stdout
    assert 'The injector denied it: clearml-injector/fraction "0.5" is not allowed' in ended.stdout
    assert "follow the message in the manifest of Job train, then delete the Job" in ended.stdout


def test_why_it_waits_is_said_by_pod_and_scheduler_what_may_not_be_read_is_named(
    control_plane, namespace, nodes, webhook, as_viewer
):
    why = partial(as_viewer, "why")
    nodes(GpuNode(gpus=1))
    webhook()
    for name in ("first", "second"):
        control_plane.api.create(labelled_pod(name, "0.750"), namespace)

    ended = until_said(why, "second", "It needs 6 slices of GPU 0")
    assert "Insufficient nvidia.com/gpu-0" in ended.stdout
    assert ended.stderr.startswith("Not read: GpuLedgers, which show where slices are free: ")
    assert until_said(why, "first", "on node").returncode == 0

    ended = as_viewer("ledger")
    shares = [line.split(maxsplit=3)[::3] for line in ended.stdout.splitlines()]
    assert [name for name, _ in shares] == ["POD", "first", "second"]
    assert [share.startswith("6 slices of GPU 0") for _, share in shares] == [False, True, True]

    ended = why("nobody")
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.startswith(f"There is no pod nobody in namespace {namespace}.")

"""`fraction-injector quota` and `ledger --uninjected` on a real API server, by its objects."""

import json

import pytest
import yaml

from testbed.gpu_nodes import GpuNode
from testbed.registration import labelled_pod
from tests.cli.running import run

QUOTA = {"slices": 8, "maxPods": 5}


@pytest.fixture
def ask(control_plane, tmp_path):
    """Run a command with the administrator's kubeconfig, of which another context is the current one."""
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    [context] = config["contexts"]
    config["contexts"].append(
        {"name": "elsewhere", "context": {**context["context"], "cluster": "elsewhere"}}
    )
    config["clusters"].append({"name": "elsewhere", "cluster": {"server": "https://127.0.0.1:1"}})
    config["current-context"] = "elsewhere"
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return lambda *arguments: run(*arguments, f"--kubeconfig={file}", f"--context={context['name']}")


@pytest.fixture
def pods(control_plane, namespace, nodes, webhook):
    """Two pods that were injected, and two that were there before the webhook: one labelled, one not."""
    [node] = nodes(GpuNode(gpus=1))
    api = control_plane.api
    late = labelled_pod("late", "0.500")
    asking = labelled_pod("asking")
    asking["metadata"] = {"name": "asking"}
    asking["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    for pod in (late, asking):
        api.create(pod, namespace)
    webhook()
    for name in ("first", "second"):
        api.create(labelled_pod(name, "0.250"), namespace)
    return node


@pytest.mark.usefixtures("pods")
def test_pods_without_an_injection_are_distinguished_from_the_others(ask, namespace):
    ended = ask("ledger", "--uninjected", "--namespace", namespace, "--output", "json")
    assert ended.returncode == 1, ended.stderr
    assert {each["pod"]: each["why"].partition(":")[0] for each in json.loads(ended.stdout)} == {
        "late": 'label clearml-injector/fraction "0.500" has no effect',
        "asking": "container asking requests nvidia.com/gpu",
    }

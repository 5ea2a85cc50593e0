"""A new mode is a module and five files that name it, all of them listed here."""

import json
import re
from pathlib import Path

import pytest

from testbed.chart import CHART, RELEASE
from tests.changed_checkout import changed_checkout, run_python

ROOT = CHART.parents[1]
IN_CHART = CHART.relative_to(ROOT)
MODE = '''"""Mode odd-gpus: the GPUs of odd index of a node, one by one."""

from modes.per_gpu import PerGpu


class OddGpus(PerGpu):
    """Leaves the GPUs of even index to others."""

    name = "odd-gpus"

    @staticmethod
    def choosable(gpus):
        """Return the GPUs of odd index."""
        return {index: slices for index, slices in gpus.items() if index % 2}
'''
LIMIT = '["CUDA_DEVICE_MEMORY_LIMIT_0={memory_mib}m", "LD_PRELOAD=/usr/local/vgpu/libvgpu.so"]'
FILES = {
    Path("modes/odd_gpus.py"): [("", MODE)],
    Path("modes/mode.py"): [('"mig"]\n', '"odd-gpus", ')],
    Path("modes/registry.py"): [
        ("from modes.per_gpu import", "from modes.odd_gpus import OddGpus\n"),
        ('"mig": Mig}', '"odd-gpus": OddGpus, '),
    ],
    Path("policies/model/schema.py"): [
        (
            "    pooled: ModePart",
            (
                '    odd_gpus: ModePart = Field(default_factory=ModePart, alias="odd-gpus")\n'
                '    """In odd-gpus mode."""\n'
            ),
        ),
        ('"mig": self.mig}', '"odd-gpus": self.odd_gpus, '),
    ],
    Path("policies/limiters/hami-core.yaml"): [
        ("  pooled:\n", '  odd-gpus:\n    env: {CUDA_DEVICE_MEMORY_LIMIT_0: "{memory_mib}m"}\n')
    ],
    IN_CHART / "templates/_policies.tpl": [
        ('  pooled: ["CUDA_', f"  odd-gpus: {LIMIT}\n"),
        ('  mig: ["NVIDIA_', '  odd-gpus: ["NVIDIA_GPU_MEMORY_LIMIT={memory_mib}"]\n'),
        ("mig: []}\nnone:", "odd-gpus: [], "),
        ("mig: []}\n{{- end", "odd-gpus: [], "),
        ("pooled: {resource:", 'odd-gpus: {resource: "nvidia.com/gpu-{index}"}\n'),
    ],
}
"""What is added, and before what: the mode, its name, its class under the name, what limiters say of it, and
what the second lock knows of it. Nothing else compares modes (tests/modes/test_registry.py)."""
NODE = """
kind: Node
metadata: {name: pair, labels: {nvidia.com/gpu.memory: "81920"}}
status: {allocatable: {cpu: 8, memory: 64Gi, pods: 110, nvidia.com/gpu-0: 8, nvidia.com/gpu-1: 8}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: half, labels: {clearml-injector/fraction: "0.500"}}
spec: {containers: [{name: main, image: "ubuntu:24.04"}]}
"""


@pytest.fixture
def checkout(tmp_path):
    """The product with one mode more."""
    return changed_checkout(tmp_path / "checkout", FILES)


def explained(folder, tmp_path):
    """What that checkout decides for a pod of a policy of the new mode."""
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "all.yaml").write_text("{kind: Policy, name: default, resources: {mode: odd-gpus}}")
    (tmp_path / "inventory.yaml").write_text(NODE)
    (tmp_path / "pod.yaml").write_text(POD)
    options = "--policies", policies, "--inventory", tmp_path / "inventory.yaml", "--output", "json"
    ended = run_python(folder, "-m", "cli.main", "explain", tmp_path / "pod.yaml", *options)
    return json.loads(ended.stdout)[0]


def rendered(helm, folder, mode):
    """Render the chart of that checkout for policies of a mode, without digests of its objects."""
    values = helm.values({"policies": {"default": {"resources": {"mode": mode}}}})
    ended = helm.run("template", RELEASE, str(folder / IN_CHART), values)
    assert (ended.code, ended.stderr) == (0, "")
    return re.sub("[0-9a-f]{64}", "", ended.stdout)


def test_a_mode_is_its_module_and_five_files(helm, checkout, tmp_path):
    facts = explained(checkout, tmp_path)
    assert (facts["message"], facts["index"], facts["memoryMiB"]) == ("", 1, 40960)
    [container] = facts["pod"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu-1": "4"}
    assert {"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "value": "40960m"} in container["env"]
    assert run_python(checkout, "-m", "charts.generate").returncode == 0
    own = rendered(helm, checkout, "odd-gpus")
    assert "odd-gpus" in own
    assert own.replace("odd-gpus", "per-gpu") == rendered(helm, checkout, "per-gpu")

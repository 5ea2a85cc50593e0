"""What NVIDIA's own modules read from a pod has a decision in kube/device_keys.py."""

import re
import subprocess
from pathlib import Path

import pytest

from kube.device_keys import ANNOTATIONS, ENVIRONMENT
from testbed.nvidia.parts import MODULES

SOURCES = {
    "toolkit": ("github.com/NVIDIA/nvidia-container-toolkit", "tags.cncf.io/container-device-interface"),
    "plugin": ("github.com/NVIDIA/k8s-device-plugin",),
    "dra": ("sigs.k8s.io/dra-driver-nvidia-gpu",),
}
VARIABLE = re.compile(r'"((?:NVIDIA|CUDA|LD|DOCKER_RESOURCE)_(?!ERROR_|SUCCESS)[A-Z_]+)"')
ANNOTATION = re.compile(r'"((?:[a-z-]+[.])*(?:cdi[.]k8s|nri)[.]io)[/"]')


def sources(name):
    """The Go files of a program's modules, without their tests."""
    folder = MODULES / name
    for module in SOURCES[name]:
        command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
        listed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        found = [each for each in Path(listed.stdout.strip()).rglob("*.go") if "/vendor/" not in str(each)]
        assert found, module
        yield from (each.read_text() for each in found if not each.name.endswith("_test.go"))


def undecided(found, keys):
    known = re.compile("|".join(re.escape(key.name).replace(r"\*", ".*") for key in keys))
    return sorted(name for name in found if not known.fullmatch(name))


@pytest.mark.parametrize("name", SOURCES)
def test_every_variable_and_annotation_that_nvidias_modules_read_has_a_decision(name):
    variables, annotations = set(), set()
    for text in sources(name):
        variables.update(VARIABLE.findall(text))
        annotations.update(ANNOTATION.findall(text))
    assert variables
    assert undecided(variables, ENVIRONMENT) == []
    assert undecided(annotations, ANNOTATIONS) == []

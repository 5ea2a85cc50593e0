"""What the documentation tells an admin to do with the chart works as it stands."""

import re
import subprocess

import pytest

from certs.mounted import read_tls_files
from certs.validation import validate_files
from testbed.chart import ADMISSION, CHART, CONFIGURATION, RELEASE
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE, probe, refuses

DOCS = CHART.parents[1] / "docs"
PAGES = [
    "getting-started/install.md",
    "getting-started/clearml.md",
    "getting-started/gpu-operator.md",
    "getting-started/other-device-plugins.md",
    "operating/uninstall.md",
    "operating/runbook.md",
    "operating/threat-model.md",
]


def blocks(language, first_line):
    """Fenced blocks of the pages that begin with this line, by page and number."""
    pattern = re.compile(rf"```{language}\n({re.escape(first_line)}.*?)```", re.DOTALL)
    return {
        f"{page}-{number}": block
        for page in PAGES
        for number, block in enumerate(pattern.findall((DOCS / page).read_text()), 1)
    }


VALUES = blocks("yaml", "# values.yaml\n")


def test_the_values_of_the_pages_render(helm, tmp_path):
    assert len(VALUES) > 5
    for name, block in VALUES.items():
        file = tmp_path / "values.yaml"
        file.write_text(block)
        rendered = helm.run("template", RELEASE, str(CHART), f"--values={file}")
        assert (rendered.code, rendered.stderr) == (0, ""), name


def shell(control_plane, folder, script):
    """Run a block of a page as an admin would, in a folder that also has the chart."""
    binaries = control_plane.home.binaries
    environment = {
        "KUBECONFIG": str(control_plane.kubeconfig),
        "HOME": str(folder),
        "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
    }
    if not (folder / "charts").exists():
        (folder / "charts").symlink_to(CHART.parent)
    ended = subprocess.run(
        ["bash", "-euc", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


@pytest.fixture
def own_namespace_is_new(control_plane):
    """The page creates it; namespaces end slowly, so that another test's may still be there."""
    control_plane.api.delete("Namespace", OWN_NAMESPACE)
    eventually(lambda: not control_plane.api.exists("Namespace", OWN_NAMESPACE), "the namespace is gone")


def test_from_a_certificate_by_hand_to_off_and_out(control_plane, own_namespace_is_new, namespace, tmp_path):
    api = control_plane.api
    [by_hand] = blocks("sh", "# A certificate by hand.\n").values()
    [off] = blocks("sh", "# Off: ").values()
    [out] = blocks("sh", "# Out.\n").values()

    shell(control_plane, tmp_path, by_hand)
    [entry] = api.get(CONFIGURATION, RELEASE, api=ADMISSION)["webhooks"]
    assert entry["clientConfig"]["caBundle"]
    for component in ("webhook", "controller"):
        name = f"{RELEASE}-{component}.{OWN_NAMESPACE}.svc"
        validate_files(read_tls_files(tmp_path), [name])
    eventually(lambda: refuses(probe(api, namespace)), "labelled pods are stopped: nothing serves here")

    shell(control_plane, tmp_path, off)
    eventually(lambda: not refuses(probe(api, namespace)), "labelled pods come in as they are")

    shell(control_plane, tmp_path, out)
    eventually(lambda: not api.exists("Namespace", OWN_NAMESPACE), "nothing is left")

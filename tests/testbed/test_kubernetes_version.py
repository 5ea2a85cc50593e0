"""Which Kubernetes the tests run: `K8S`, or the default."""

import os
import re
import subprocess
import sys

import yaml

from testbed.kubernetes_version import chosen, releases


def test_the_install_guide_tells_of_each_release_what_was_tried_on_it(pytestconfig):
    guide = (pytestconfig.rootpath / "docs" / "getting-started" / "install.md").read_text()
    _, _, section = guide.partition("## Tested versions\n")
    listed = re.findall(r"^\| (\d+\.\d+\.\d+) \|", section.partition("\n## ")[0], re.MULTILINE)
    assert listed == [release.version for release in reversed(releases().values())]


def test_the_oldest_release_is_the_one_of_the_quick_subset(pytestconfig):
    makefile = (pytestconfig.rootpath / "Makefile").read_text()
    [command] = re.findall(r"^test-oldest:.*\n\t(.*)$", makefile, re.MULTILINE)
    assert command.split()[0] == f"K8S={next(iter(releases()))}"


def test_the_chart_takes_the_oldest_release_and_no_older_one(pytestconfig):
    chart = yaml.safe_load((pytestconfig.rootpath / "charts/fraction-injector/Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={next(iter(releases()))}.0-0"


def test_without_a_choice_the_newest_release_is_tested():
    assert chosen("") == list(releases().values())[-1]


def test_an_unknown_release_is_refused_before_any_test_runs(pytestconfig):
    ended = subprocess.run(
        [sys.executable, "-c", "import testbed.kubernetes_version"],
        cwd=pytestconfig.rootpath,
        env=os.environ | {"K8S": "1.29"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    refusal = "K8S=1.29: the tests know Kubernetes 1.30, 1.33, 1.36, 1.37: set K8S to one of them\n"
    assert ended.stderr == refusal
    assert ended.stdout == ""

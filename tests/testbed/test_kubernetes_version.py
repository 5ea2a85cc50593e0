"""Which Kubernetes the tests run: `K8S`, or the default."""

import re

import yaml

from testbed.kubernetes_version import releases


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

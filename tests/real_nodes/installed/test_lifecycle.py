"""Upgrade and rollback under load."""

from testbed.chart import RELEASE
from tests.real_nodes.installation import VALUES
from tests.real_nodes.load import Load
from tests.real_nodes.pods import WORK

CHANGED = {
    **VALUES,
    "webhook": {"podAnnotations": {"example.com/changed": "yes"}},
    "controller": {"podAnnotations": {"example.com/changed": "yes"}},
}


def test_no_create_fails_in_an_upgrade_and_in_its_rollback(installation, cluster):
    history = installation.helm.run("history", RELEASE, "--output=json").stdout.count('"revision"')
    with Load(cluster.api, WORK) as load:
        installation.install(CHANGED)
        assert installation.helm.run("rollback", RELEASE, str(history)).code == 0
        installation.until_served()
    assert load.failed(labelled=True) == []
    assert load.failed(labelled=False) == []
    for component in ("webhook", "controller"):
        template = installation.deployment(component)["spec"]["template"]["metadata"]
        assert "example.com/changed" not in template.get("annotations", {})

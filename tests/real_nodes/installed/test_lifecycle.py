"""Upgrade and rollback under load, and what the runbook says of off and on again."""

from testbed.chart import RELEASE
from testbed.process import eventually
from testbed.registration import probe, refuses
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


def test_the_runbooks_off_and_on_again(installation, cluster):
    off = [
        "delete mutatingwebhookconfiguration fraction-injector",
        "delete validatingadmissionpolicybinding --selector app.kubernetes.io/component=second-lock",
    ]
    for command in off:
        assert cluster.kubectl(*command.split()).code == 0
    eventually(lambda: untouched(cluster), "labelled pods come in as they are")
    installation.install(VALUES)
    eventually(lambda: not untouched(cluster), "labelled pods are injected again")


def untouched(cluster):
    found = probe(cluster.api, WORK)
    return not refuses(found) and "annotations" not in found["metadata"]

"""What an admin has after `helm install`, as pods of the image, and through an upgrade and a rollback."""

import json

from testbed.chart import RELEASE
from tests.real_nodes.installation import VALUES
from tests.real_nodes.load import Load
from tests.real_nodes.pods import WORK

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - where pods find one


def test_the_webhook_has_no_rights_and_can_write_nowhere(installation):
    for pod in installation.pods("webhook"):
        mounts = installation.exec(pod.name, "cat", "/proc/mounts").stdout
        assert "serviceaccount" not in mounts
        assert installation.exec(pod.name, "ls", TOKEN).code != 0
        assert "Read-only file system" in installation.exec(pod.name, "touch", "/opt/x").stderr
        status = installation.exec(pod.name, "cat", "/proc/1/status").stdout
        lines = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
        assert lines["Uid"].split() == ["65532"] * 4
        assert (lines["CapEff"], lines["NoNewPrivs"], lines["Seccomp"]) == ("0" * 16, "1", "2")


def test_the_commands_of_the_runbook_work_in_the_controllers_pod(installation, cluster):
    deployment = f"deployment/{RELEASE}-controller"
    ledger = installation.exec(deployment, "fraction-injector", "ledger", "--output=json")
    assert ledger.code == 0, ledger.stderr
    assert {each["name"] for each in json.loads(ledger.stdout) if each["kind"] == "node"} == set(
        cluster.nodes
    )
    certificates = installation.exec(deployment, "fraction-injector", "certs", "status")
    assert certificates.code == 0, certificates.stderr
    assert "S0-steady" in certificates.stdout


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

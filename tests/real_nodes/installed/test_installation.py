"""What an admin has after `helm install`: two webhooks and two controllers, as pods of the image."""

import json

from testbed.chart import RELEASE

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

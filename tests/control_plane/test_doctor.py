"""`fraction-injector doctor` tries a pod on a real API server; test_chart_test.py has its other rights."""

import base64
import json
from datetime import UTC, datetime

from certs.authority import make_authority
from testbed.chart import ADMISSION
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from tests.cli.running import run


def trust(api, pem):
    """Have API servers trust another CA with the webhook."""
    ca = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": base64.b64encode(pem).decode()}
    path = f"/apis/{ADMISSION}/mutatingwebhookconfigurations/fractions"
    api.call("PATCH", path, [ca], content="application/json-patch+json")


def test_a_pod_is_tried_in_a_dry_run(control_plane, namespace, nodes, webhook):
    [node] = nodes(GpuNode())
    asked = ("doctor", node, "--output=json", f"--kubeconfig={control_plane.kubeconfig}")
    where = f"a labelled pod in namespace {namespace}"

    def tried(*arguments):
        line = json.loads(run(*asked, f"--try-namespace={namespace}", *arguments).stdout)[-1]
        return line["check"], line["level"], line["what"]

    assert tried() == ("trial", "warning", f"{where} is created unchanged, without a share")
    assert tried("--no-trial")[0] != "trial"
    webhook()
    check, level, what = tried()
    assert (check, level, what.rpartition(" ")[0]) == ("trial", "ok", f"{where} is injected by policy")

    # A foreign CA: API servers no longer trust the webhook, and its answer is not read.
    trust(control_plane.api, make_authority(datetime.now(UTC)).certificate_pem)
    what = eventually(
        lambda: (found := tried())[1] == "failed" and found[2], "the API server uses the new CA"
    )
    assert what.startswith(f"{where} cannot be created: the API server answered 500: ")
    assert "failed calling webhook" in what
    assert "x509" in what
    assert control_plane.api.list("Pod", namespace) == []

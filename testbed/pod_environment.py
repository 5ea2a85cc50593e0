"""A command as it runs inside a pod: with a service account's files where a kubelet mounts them."""

import json
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from testbed.cluster import Cluster
from testbed.command import Output, output_of

MOUNT = """
mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io &&
cp -r "$1" /run/secrets/kubernetes.io/serviceaccount && shift && exec "$@"
"""
"""In a mount namespace of its own: /var/run leads to /run."""
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--propagation=private")


def why_not() -> str | None:
    """Return why no command can be given files of its own below /var/run here; None where it can."""
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    tried = subprocess.run(
        [*UNSHARE, "sh", "-c", "mount -t tmpfs tmpfs /run"], capture_output=True, text=True, check=False
    )
    # Without the name of the program: it is here, and to install it would help nobody.
    return (
        f"no namespaces of its own: {tried.stderr.strip().rpartition(': ')[2]}" if tried.returncode else None
    )


def run_in_pod(cluster: Cluster, token: str, namespace: str, folder: Path, *command: str) -> Output:
    """Run a command with a service account's token, as in a pod of its namespace."""
    config = json.loads(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    account = folder / "serviceaccount"
    account.mkdir(exist_ok=True)
    (account / "token").write_text(token)
    (account / "namespace").write_text(namespace)
    (account / "ca.crt").write_bytes(Path(config["certificate-authority"]).read_bytes())
    server = urlsplit(config["server"])
    variables = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
    environment = {**variables, "HOME": str(folder / "home"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return output_of([*UNSHARE, "sh", "-c", MOUNT, "sh", str(account), *command], environment)

"""The control plane's parts: which command starts each, and how it is known to be ready."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from testbed import plain_http
from testbed.api import Api
from testbed.process import Process, start_on_free_ports

READY_S = 180
ADMIN_TOKEN = "admin"  # noqa: S105 - of a throw-away API server on the loopback device
STAGES = Path(__file__).with_name("stages.yaml")
LESS_GARBAGE_COLLECTION = {"GOGC": "300"}
"""Go collects when its heap has grown fourfold instead of twofold: a fifth less CPU for 150 MiB more."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folders of one control plane.

    Attributes:
        binaries: Where the programs lie.
        folder: Keys, data and logs; nothing is written elsewhere.
    """

    binaries: Path
    folder: Path

    def start(self, program: str, *arguments: str, name: str = "") -> Process:
        """Start a program; its log is named like it, unless `name` says otherwise."""
        log = self.folder / f"{name or program}.log"
        command = [str(self.binaries / program), *arguments]
        return Process(command, log, environment=LESS_GARBAGE_COLLECTION)

    @property
    def ca_file(self) -> Path:
        """The CA of every API server of this control plane, in PEM."""
        return self.folder / "ca.pem"

    @property
    def service_account_key(self) -> Path:
        """The key that signs service accounts' tokens."""
        return self.folder / "service-account.pem"


def make_keys(home: Home, names: Sequence[str] = (), tokens: Sequence[str] = ()) -> None:
    """Write the CA, the API server's certificate, the service accounts' key and the administrator's token.

    Args:
        home: Where to.
        names: Names and addresses of the API server in addition to those of the loopback device.
        tokens: More users, each as a line of kube-apiserver's `--token-auth-file`.
    """
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(home.ca_file))
    serving = ca.issue_cert("127.0.0.1", "localhost", *names)
    serving.private_key_and_cert_chain_pem.write_to_path(str(home.folder / "apiserver.pem"))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    home.service_account_key.write_bytes(pem)
    users = [f"{ADMIN_TOKEN},admin,admin,system:masters", *tokens]
    (home.folder / "tokens.csv").write_text("".join(f"{user}\n" for user in users))


def start_etcd(home: Home) -> tuple[Process, str]:
    """Start etcd without fsync; return it and its URL."""

    def start(ports: list[int]) -> Process:
        client, peer = (f"http://127.0.0.1:{port}" for port in ports)
        urls = [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        peers = [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
        peers.append(f"--initial-cluster=default={peer}")
        data = f"--data-dir={home.folder / 'etcd'}"
        return home.start("etcd", data, *urls, *peers, "--unsafe-no-fsync")

    process, ports = start_on_free_ports(
        2, start, lambda ports: plain_http.is_ready(ports[0], "/health"), READY_S
    )
    return process, f"http://127.0.0.1:{ports[0]}"


def start_apiserver(
    home: Home, etcd_url: str, name: str = "kube-apiserver", *more: str
) -> tuple[Process, str]:
    """Start an API server on an etcd, which others may share, with more options; return it and its URL."""

    def start(ports: list[int]) -> Process:
        return home.start("kube-apiserver", *apiserver_arguments(home, etcd_url, ports[0]), *more, name=name)

    process, ports = start_on_free_ports(1, start, _api_ready(home), READY_S)
    return process, f"https://127.0.0.1:{ports[0]}"


def apiserver_arguments(home: Home, etcd_url: str, port: int) -> list[str]:
    """Options of kube-apiserver on the loopback device; of one that is duplicate, the last holds."""
    return [
        f"--etcd-servers={etcd_url}",
        f"--cert-dir={home.folder}",
        f"--tls-cert-file={home.folder / 'apiserver.pem'}",
        f"--tls-private-key-file={home.folder / 'apiserver.pem'}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        # The default would publish 127.0.0.1, which Endpoints refuse, every ten seconds.
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://control-plane.test",
        f"--service-account-key-file={home.service_account_key}",
        f"--service-account-signing-key-file={home.service_account_key}",
        f"--token-auth-file={home.folder / 'tokens.csv'}",
    ]


def _api_ready(home: Home) -> Callable[[list[int]], bool]:
    def ready(ports: list[int]) -> bool:
        with Api(f"https://127.0.0.1:{ports[0]}", str(home.ca_file), ADMIN_TOKEN) as api:
            return api.ready()

    return ready


def write_kubeconfig(home: Home, api_url: str, file: Path, token: str = ADMIN_TOKEN) -> None:
    """Write a kubeconfig of an API server (JSON, which is YAML), the administrator's or another user's."""
    cluster = {"server": api_url, "certificate-authority": str(home.ca_file)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }
    file.write_text(json.dumps(config, indent=1))


def start_scheduler(home: Home, kubeconfig: Path) -> Process:
    """Start the scheduler; it is ready when it places its first pod."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
    }
    file = home.folder / "scheduler.json"
    file.write_text(json.dumps(config))
    return home.start("kube-scheduler", f"--config={file}", "--secure-port=0")


def start_controller_manager(home: Home, kubeconfig: Path) -> Process:
    """Start the controllers of Jobs, Deployments, nodes, namespaces, service accounts and garbage."""
    return home.start(
        "kube-controller-manager",
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        f"--service-account-private-key-file={home.service_account_key}",
        f"--root-ca-file={home.ca_file}",
    )


def start_kwok(home: Home, kubeconfig: Path) -> Process:
    """Start KWOK, which plays the kubelet of every node: leases, and pods that run."""
    return home.start(
        "kwok",
        f"--kubeconfig={kubeconfig}",
        f"--config={STAGES}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
    )

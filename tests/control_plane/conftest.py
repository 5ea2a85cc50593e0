"""The control plane as fixtures: one for the session, a namespace and nodes of its own for each test."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from certs.authority import make_authority
from cli.app import app
from testbed import binaries
from testbed.admission_server import AdmissionServer
from testbed.api import Object
from testbed.certificate_files import write_tls
from testbed.chart import RELEASE, Helm
from testbed.cluster import Cluster
from testbed.command import Output
from testbed.controller_process import SHORT_LEASE, Controller, install_crd, registered_webhook
from testbed.gpu_nodes import GpuNode, schedulable
from testbed.preloaded import preloaded
from testbed.process import eventually, tail
from testbed.product import POLICIES, Setup, Webhook, decides, self_signed
from testbed.registration import OWN_NAMESPACE, configuration, registered
from tests.conftest import Say

HERE = Path(__file__).parent
CLUSTER = pytest.StashKey[Cluster]()
NUMBERS = itertools.count(1)
NOT_ENDED_BY_PODS = (
    *(("apps/v1", kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
    *(("batch/v1", kind) for kind in ("CronJob", "Job")),
)
"""What makes pods again, and so must go with its namespace."""

Kubectl = Callable[..., Output]
Nodes = Callable[..., list[str]]
StartController = Callable[..., Controller]
StartWebhook = Callable[..., "Registered"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            # Every wait of the fixtures has its own end.
            item.add_marker(pytest.mark.timeout(300, func_only=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    cluster = item.config.stash.get(CLUSTER, None)
    if report.failed and cluster is not None:
        logs = cluster.logs()
        if "tmp_path" in item.funcargs:
            logs += item.funcargs["tmp_path"].glob("*.log")
        report.sections += [(f"end of {log.name}", tail(log, 12)) for log in logs]
    return report


@pytest.fixture(scope="session")
def built(say: Say) -> Path:
    """Folder of the binaries, built if need be, with a line on the terminal for each."""
    return binaries.build(say)


@pytest.fixture(scope="session", autouse=True)
def forked_processes() -> Iterator[None]:
    """The product's processes are forks of one that has loaded them."""
    with preloaded():
        yield


@pytest.fixture(scope="session")
def control_plane(
    built: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    with Cluster(built, tmp_path_factory.mktemp("control-plane")) as cluster:
        pytestconfig.stash[CLUSTER] = cluster
        yield cluster


@pytest.fixture
def namespace(control_plane: Cluster) -> Iterator[str]:
    """An empty namespace of the test's own; its pods are gone when the test ends, what makes pods soon after.

    To delete a namespace takes the control plane a hundred requests, as many as a test.
    """
    name, api = f"test-{next(NUMBERS)}", control_plane.api
    control_plane.create_namespace(name)
    yield name
    if any(api.list(kind, name, version) for version, kind in NOT_ENDED_BY_PODS):
        api.delete("Namespace", name)
    api.delete_all("Pod", name)


@pytest.fixture
def own_namespace(control_plane: Cluster) -> str:
    """The namespace that the product lives in; other tests leave it behind as well."""
    if not control_plane.takes_pods(OWN_NAMESPACE):
        control_plane.create_namespace(OWN_NAMESPACE)
    return OWN_NAMESPACE


@pytest.fixture
def helm(control_plane: Cluster, tmp_path: Path) -> Helm:
    return Helm(control_plane, tmp_path)


@pytest.fixture
def no_release_left(helm: Helm, own_namespace: str) -> Iterator[None]:
    """Nothing of the release is left when the test ends but the CRD, as for every user.

    An API server can take minutes to delete a CRD that it has only just begun to serve.
    """
    yield
    helm.run("uninstall", RELEASE, "--ignore-not-found")


@pytest.fixture
def nodes(control_plane: Cluster, namespace: str) -> Iterator[Nodes]:
    """Add nodes: `nodes(GpuNode(gpus=2), GpuNode(memory_mib=40960))` returns their names, in this order.

    They are named after the test's namespace unless `names` says otherwise, and leave with the test.
    """
    added: list[str] = []

    def add(*wanted: GpuNode, names: tuple[str, ...] = ()) -> list[str]:
        names = names or tuple(f"{namespace}-gpu-{len(added) + i}" for i in range(len(wanted)))
        for name, node in zip(names, wanted, strict=True):
            control_plane.api.create(node.manifest(name))
            added.append(name)
        for name in names:
            eventually(lambda name=name: _schedulable(control_plane, name), f"{name} takes pods")
        return list(names)

    yield add
    for name in added:
        control_plane.api.delete("Node", name)


def _schedulable(cluster: Cluster, name: str) -> bool:
    return schedulable(cluster.api.get("Node", name))


@pytest.fixture
def kubectl(control_plane: Cluster, namespace: str) -> Kubectl:
    """Run kubectl in the test's namespace: `kubectl("get", "pods").stdout`, also `stderr` and `code`."""

    def run(*arguments: str, stdin: str = "") -> Output:
        return control_plane.kubectl(f"--namespace={namespace}", *arguments, stdin=stdin)

    return run


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered webhook of the product, and the reviews sent to it if they are recorded."""

    product: Webhook
    reviews: list[Object]

    def real_reviews(self) -> list[Object]:
        """The reviews of pods, oldest first, dry runs apart."""
        of_pods = [each for each in self.reviews if each["request"]["kind"]["kind"] == "Pod"]
        return [each for each in of_pods if not each["request"]["dryRun"]]

    def explain(self, review: Object) -> Object:
        """What `explain` makes of a review, given what the webhook was given; in this process."""
        options = [*self.product.setup.options, "--output=json", "-"]
        ended = CliRunner().invoke(app, ["explain", *options], input=json.dumps(review))
        assert ended.stderr == ""
        explanation: Object = json.loads(ended.stdout)[0]
        assert ended.exit_code == (0 if explanation["allowed"] else 1)
        return explanation


@pytest.fixture
def setup(control_plane: Cluster, tmp_path: Path) -> Callable[..., Setup]:
    """What to start the product with: `setup()` has the default policies and the nodes of this moment."""

    def make(policies: Path = POLICIES) -> Setup:
        inventory = tmp_path / "inventory.yaml"
        inventory.write_text(control_plane.kubectl("get", "nodes", "--output=yaml").stdout)
        return Setup(policies, inventory)

    return make


@pytest.fixture
def webhook(control_plane: Cluster, namespace: str, setup, tmp_path: Path) -> Iterator[StartWebhook]:
    """Start the product's webhook on the nodes of this moment and register it with its CA: `webhook()`.

    `webhook(recorded=True)` puts a recorder between the API server and it.
    """
    with ExitStack() as stack:

        def start(policies: Path = POLICIES, *, recorded: bool = False) -> Registered:
            product = stack.enter_context(self_signed(setup(policies), tmp_path))
            recorder = None
            if recorded:
                recorder = stack.enter_context(AdmissionServer(stack.enter_context(product.relay())))
            asked = recorder or product
            config = configuration("fractions", asked.url, asked.ca_pem)
            stack.enter_context(registered(control_plane.api, config, namespace, decides))
            return Registered(product, recorder.reviews if recorder else [])

        yield start


@pytest.fixture
def start(control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[StartController]:
    """Start a controller of the test's Lease, with more options; it ends with the test."""
    install_crd(control_plane.api)
    authority = make_authority(datetime.now(UTC))
    tls = write_tls(tmp_path / "tls", authority)
    with ExitStack() as stack:

        def one(name: str = "controller", *more: str, kubeconfig: Path = control_plane.kubeconfig):
            options = (*SHORT_LEASE, *more)
            running = Controller(kubeconfig, tmp_path, tls, f"lease-{namespace}", name=name, more=options)
            stack.callback(running.stop)
            return running

        one.authority = authority  # type: ignore[attr-defined] # a stranger of the same CA is one test
        yield one


@pytest.fixture
def serve(control_plane: Cluster, namespace: str, start, tmp_path: Path):
    """Run a controller that leads, with more options, and a webhook that asks it, under a default policy."""
    with ExitStack() as stack:

        def one(policy: str = "", *more: str) -> tuple[Controller, Webhook]:
            folder = tmp_path / "served-policies"
            folder.mkdir()
            (folder / "default.yaml").write_text(f"kind: Policy\nname: default\n{policy}\n")
            controller = start("controller", f"--policies={folder}", *more)
            controller.until_leading()
            asking = registered_webhook(control_plane.api, namespace, controller, tmp_path, folder)
            return controller, stack.enter_context(asking)

        yield one

"""fraction-injector doctor, against an API server of a few lines: lines, exit status, missing rights."""

import json
from datetime import UTC, datetime

import pytest

from cluster.kube_client import ApiError
from tests.cli.running import run, serve

OWN = "/api/v1/namespaces/gpu-fraction-injector"
NODES = "/api/v1/nodes"
SERVED = {"resources": [{"name": "gpunodes"}, {"name": "gpuledgers"}]}
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpu-fraction-injector/leases/fraction-injector-controller"
NO_RIGHT = 'pods is forbidden: User "me" cannot create resource "pods" in API group ""'
GPU_NODES = "/apis/clearml-injector.io/v1alpha1/gpunodes"


def gpu_node(name, **status):
    return {"metadata": {"name": name}, "status": {"registered": True, "gpus": [], **status}}


def gpu_worker(name, memory="81920"):
    amounts = {"nvidia.com/gpu-0": "8"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "uid": name, "labels": {"nvidia.com/gpu.memory": memory}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]},
    }


class Api:
    """Holds objects by path; what it does not hold is empty for lists and 404 for single objects."""

    def __init__(self, objects):
        self.objects, self.asked = objects, []

    async def request(self, method, path, *, query=None, **_):
        self.asked.append((method, path, dict(query or {})))
        found = self.objects.get(path)
        found = found() if callable(found) else found
        if found is None and method == "POST":
            found = ApiError(403, NO_RIGHT)
        elif found is None:
            found = ApiError(404, f"{path} not found") if query is None else {"items": []}
        if isinstance(found, Exception):
            raise found
        return (found if isinstance(found, str) else json.dumps(found)).encode()


def lease():
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 7, "renewTime": datetime.now(UTC).isoformat()}
    return {"metadata": {"name": "x"}, "spec": spec}


OBJECTS = {
    "/apis/clearml-injector.io/v1alpha1": SERVED,
    LEASE: lease,
    NODES: {"items": [gpu_worker("gpu-1"), gpu_worker("gpu-2", "")]},
    GPU_NODES: {"items": [gpu_node("gpu-1", gpus=[{"index": 0, "healthy": True}])]},
}


@pytest.fixture
def ask(monkeypatch):
    def call(objects, *arguments):
        api = Api(objects)
        serve(monkeypatch, api)
        ended = run("doctor", *arguments)
        return ended, api

    return call


def level_of(ended, text):
    [level] = {line.split()[0] for line in ended.stdout.splitlines() if text in line}
    return level


def test_each_check_is_a_line_with_what_to_do_and_a_failure_is_the_exit_status(ask):
    ended, _ = ask(OBJECTS)
    assert ended.returncode == 1
    assert level_of(ended, " a leads") == "ok"
    assert level_of(ended, "MutatingWebhookConfiguration fraction-injector is missing") == "failed"
    [line] = [line for line in ended.stdout.splitlines() if "nvidia.com/gpu.memory" in line]
    assert line.startswith("failed   node gpu-2: the node label nvidia.com/gpu.memory is missing")
    assert " -- install GPU feature discovery, or run kubectl label node gpu-2" in line


def test_without_a_right_a_check_is_skipped_and_its_line_names_the_right(ask):
    ended, _ = ask({**OBJECTS, LEASE: ApiError(403, "no"), GPU_NODES: ApiError(403, "no")})
    skipped = [line for line in ended.stdout.splitlines() if line.startswith("skipped")]
    assert (
        "skipped  controller: you lack the right to get leases in namespace gpu-fraction-injector" in skipped
    )
    assert "skipped  cards: you lack the right to list gpunodes" in skipped


def test_in_brief_it_reads_no_secret_and_says_whether_all_is_well(ask):
    ended, api = ask(OBJECTS, "--brief")
    assert not [path for _, path, _ in api.asked if "/secrets/" in path]
    assert ended.returncode == 1
    said = [line.split(maxsplit=1) for line in ended.stdout.splitlines()]
    assert ["ok", "a leads"] in said
    assert [level for level, what in said if "is missing or empty" in what] == ["failed"]
    assert not [what for _, what in said if "nvidia.com/gpu.memory" in what]


def test_policies_that_are_broken_or_not_there_are_a_failure(ask):
    config_map = f"{OWN}/configmaps/fraction-injector-policies"
    missing = "ConfigMap gpu-fraction-injector/fraction-injector-policies does not exist -- name the install"
    assert level_of(ask(OBJECTS)[0], missing) == "failed"
    broken = {"data": {"default.yaml": "kind: Policy\nname: default\nlimitr: none\n"}}
    what = "the policies are broken: default.yaml:3: limitr: unknown key"
    assert level_of(ask({**OBJECTS, config_map: broken})[0], what) == "failed"


def test_without_any_right_nothing_is_said_to_be_well(ask):
    class Refusing(dict):
        def get(self, path, default=None):
            return ApiError(403, NO_RIGHT)

    ended, _ = ask(Refusing())
    assert ended.returncode == 2
    assert {line.split()[0] for line in ended.stdout.splitlines()} == {"skipped"}
    assert "no check could be made" in ended.stderr


@pytest.mark.parametrize("error", [ApiError(503, "etcd is away"), TimeoutError("late")])
def test_an_api_server_that_does_not_answer_is_no_finding(ask, error):
    ended, _ = ask({**OBJECTS, NODES: error})
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "fraction-injector in gpu-fraction-injector cannot be checked" in ended.stderr


def test_an_object_that_cannot_be_read_is_a_failure_and_no_traceback(ask):
    ended, _ = ask({**OBJECTS, GPU_NODES: {"items": [{"metadata": {"name": 7}}]}})
    assert level_of(ended, "what needs the right to list gpunodes cannot be read") == "failed"
    for part, status in (("agent", {"conditions": [7]}), ("webhook", None)):
        labels = {"app.kubernetes.io/component": part}
        pod = {"metadata": {"name": f"fraction-injector-{part}-a", "labels": labels}, "status": status}
        ended, _ = ask({**OBJECTS, f"{OWN}/pods": {"items": [pod]}})
        assert level_of(ended, "what needs the right to") == "failed"


def test_a_labelled_pod_is_tried_in_a_dry_run_unless_that_is_switched_off(ask):
    injected = {"metadata": {"name": "x", "annotations": {"clearml-injector/injected": "default@1"}}}
    pods = "/api/v1/namespaces/team/pods"
    ended, api = ask({**OBJECTS, pods: injected}, "--try-namespace", "team")
    assert level_of(ended, "a labelled pod in namespace team is injected by policy default@1") == "ok"
    written = [(path, query) for method, path, query in api.asked if method != "GET"]
    assert written == [(pods, {"dryRun": "All"})]
    ended, api = ask(OBJECTS, "--no-trial")
    assert ({method for method, *_ in api.asked}, "a labelled pod" in ended.stdout) == ({"GET"}, False)


def with_agent(status):
    metadata = {"name": "fraction-injector-agent-a", "labels": {"app.kubernetes.io/component": "agent"}}
    pod = {"metadata": metadata, "spec": {"nodeName": "gpu-1", "containers": []}, "status": status}
    return {**OBJECTS, f"{OWN}/pods": {"items": [pod]}}


def waits(reason, **more):
    return {"waiting": {"reason": reason, **more}}


DRIVER = "fraction-injector: NVML: nvmlInit: Driver Not Loaded"
ENDED = {"reason": "Error", "exitCode": 2, "message": f"more\n{DRIVER}\n"}
CREATING = waits("PodInitializing")


@pytest.mark.parametrize(
    ("container", "init", "text"),
    [
        (
            waits("CrashLoopBackOff", message="back-off"),
            None,
            f"CrashLoopBackOff after exit code 2: {DRIVER} -- ",
        ),
        (CREATING, {"terminated": ENDED}, f"library: Error after exit code 2: {DRIVER}"),
        (CREATING, waits("ErrImagePull", message="denied"), "library: ErrImagePull: denied -- check image"),
        (
            waits("ContainerCreating"),
            None,
            "agent: ContainerCreating: FailedCreatePodSandBox: no runtime for nvidia",
        ),
        (None, None, "scheduler: Unscheduled: m -- kubectl describe pod"),
    ],
)
def test_the_agents_pod_says_what_it_waits_for(ask, container, init, text):
    is_loop = container is not None and container["waiting"]["reason"] == "CrashLoopBackOff"
    last = {"terminated": ENDED} if is_loop else {}
    status = {
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "m"}]
        if container is None
        else [],
        "containerStatuses": [{"name": "agent", "state": container, "lastState": last}] if container else [],
        "initContainerStatuses": [{"name": "library", "state": init}] if init else [],
    }
    about = {"involvedObject": {"kind": "Pod", "name": "fraction-injector-agent-a"}}
    failed = {"reason": "FailedCreatePodSandBox", "message": "no runtime for nvidia"}
    events = [
        {**about, "reason": "Old", "message": "x", "lastTimestamp": "2026-01-01T00:00:00Z"},
        {**about, **failed, "lastTimestamp": "2026-01-02T00:00:00Z"},
    ]
    ended, _ = ask({**with_agent(status), f"{OWN}/events": {"items": events}})
    assert level_of(ended, text) == "failed"


def test_an_agent_without_rights_is_explained_by_its_log(ask):
    there = with_agent({"conditions": [{"type": "Ready", "status": "True"}]})
    refused = {"event": "node facts are not written", "error": "the API server answered 403: x"}
    said = [
        {"level": "warning", "event": "other", "error": "before"},
        {"level": "warning", **refused},
        {"level": "info", "event": "registered"},
    ]
    log = "\n".join(["no JSON", *map(json.dumps, said), "{"])
    path = f"{OWN}/pods/fraction-injector-agent-a/log"
    silent = {**there, GPU_NODES: {"items": []}}
    ended, api = ask({**silent, path: log})
    what = "its agent logs: node facts are not written: the API server answered 403: x -- check the rights"
    assert level_of(ended, what) == "failed"
    [query] = [query for _, asked, query in api.asked if asked == path]
    assert query["container"] == "agent"
    _, api = ask(there)  # it reports
    assert path not in [asked for _, asked, _ in api.asked]
    for unread in (ApiError(403, "no"), ApiError(502, "the kubelet is away"), TimeoutError()):
        ended, _ = ask({**silent, path: unread})
        assert level_of(ended, "no agent has reported from this node yet") == "failed"

"""fraction-injector why, against an API server of a few lines that lets a user read what the test says."""

import pytest
import yaml

from cli.options import namespace_of
from cluster.kube_client import ApiError
from cluster.listing import PAGE
from describe.why import MAX_PAGES
from tests.cli.commands.why_api import NAMESPACE, ago, event, ledger, waiting

LEDGERS = "/apis/clearml-injector.io/v1alpha1/gpuledgers"
REPORTS = "/apis/clearml-injector.io/v1alpha1/gpunodes"


def test_who_may_read_all_learns_which_gpu_has_room(ask):
    ledgers = {"items": [ledger("gpu-0", (3, 1), (5, 6))]}
    ended = ask({f"{NAMESPACE}/pods/train": waiting(), LEDGERS: ledgers})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == (
        'Pod team/train requested clearml-injector/fraction "0.500". Policy "default" gives it 4 slices of'
        " GPU 3, limited to 40960 MiB. It has waited for 10 minutes and has no node yet. It needs 4 slices of"
        " GPU 3. Free now: gpu-0: 1. GPU 5 of gpu-0 has 6 free: delete the pod, so that ReplicaSet web-1"
        " creates another to use it.\n"
    )


def test_of_a_pod_that_only_an_agent_limits_nodes_without_a_running_agent_do_not_count(ask):
    found = waiting()
    del found["metadata"]["annotations"]["clearml-injector/memory-mib"]
    ledgers = {"items": [ledger("agent", (3, 1)), ledger("plugin", (3, 8)), ledger("late", (3, 8))]}
    reports = {"items": [report("agent", registered=True), report("late", registered=False)]}
    known = {f"{NAMESPACE}/pods/train": found, LEDGERS: ledgers}
    said = ask({**known, REPORTS: reports})
    assert "4 slices of GPU 3. No node with a running agent has room. Free now: agent: 1." in said.stdout
    without = ask({**known, REPORTS: {"items": []}})
    assert "no node that takes pods now and runs the agent, which must limit the pod, has" in without.stdout
    unread = ask(known)
    assert "Nodes have enough free slices for it now: late: 8, plugin: 8, agent: 1." in unread.stdout
    assert "Not read: GpuNodes, which show where an agent runs" in unread.stderr


def running():
    pod = waiting(status={"phase": "Running"})
    pod["spec"]["nodeName"] = "gpu-0"
    return {f"{NAMESPACE}/pods/train": pod}


def using(pod, gpu=3, **more):
    used = {"memoryMiB": 40960, "usedMiB": 2100, "peakMiB": 8000, "p95MiB": 7800}
    return {"namespace": "team", "pod": pod, "container": "a", "gpu": gpu, "since": ago(9000), **used, **more}


def test_a_running_pod_is_told_what_it_uses_of_each_gpu_and_of_nobody_else(ask):
    uses = [using("train", busyPercent=3), using("train", gpu=4), using("other", usedMiB=1)]
    status = {"gpus": [], "usage": {"count": 3, "containers": uses}}
    node = {f"{REPORTS}/gpu-0": {"metadata": {"name": "gpu-0"}, "status": status}}
    ended = ask({**running(), **node})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith(
        "It runs on node gpu-0. Of GPU 3 it uses 2100 of 40960 MiB (peak 8000), and its kernels ran 3 % in"
        " the last hour. Of GPU 4 it uses 2100 of 40960 MiB (peak 8000).\n"
    )


@pytest.mark.parametrize("status", [403, 404])
def test_who_may_not_read_the_gpu_node_or_has_none_is_told_nothing_of_use(ask, status):
    ended = ask({**running(), f"{REPORTS}/gpu-0": ApiError(status, "no")})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith("It runs on node gpu-0.\n")


NODES = "/api/v1/nodes"


def a_node(name, labels=None, taints=(), annotations=None):
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"taints": list(taints)}, "status": {"allocatable": {}}}


TAINT = {"key": "team", "value": "red", "effect": "NoSchedule"}


def test_nodes_that_the_pods_own_selector_or_the_nodes_taints_shut_out_are_not_called_free(ask):
    found = waiting()
    found["spec"]["nodeSelector"] = {"zone": "a"}
    ledgers = {"items": [ledger("gpu-a", (3, 1)), ledger("gpu-b", (3, 8)), ledger("gpu-c", (3, 8))]}
    nodes = [
        a_node("gpu-a", {"zone": "a"}),
        a_node("gpu-b", {"zone": "b"}),
        a_node("gpu-c", {"zone": "a"}, [TAINT]),
    ]
    answers = {f"{NAMESPACE}/pods/train": found, LEDGERS: ledgers, NODES: {"items": nodes}}
    ended = ask(answers)
    assert "Free now: gpu-a: 1. 2 more nodes have such GPUs, but the pod's nodeSelector" in ended.stdout
    assert "gpu-b" not in ended.stdout
    ended = ask({**answers, NODES: {"items": nodes[1:]}})
    assert (
        "3 nodes have such GPUs, but the pod's nodeSelector, affinity or tolerations exclude them"
        in ended.stdout
    )


def test_nodes_that_may_not_be_read_are_named_where_the_pod_has_demands_of_its_own(ask):
    found = waiting()
    answers = {f"{NAMESPACE}/pods/train": found, LEDGERS: {"items": [ledger("gpu-b", (3, 8))]}}
    memory = {"key": "nvidia.com/gpu.memory", "operator": "In", "values": ["81920"]}
    own = {"key": "zone", "operator": "Exists"}
    for expressions, is_named in (([memory], False), ([memory, own], True)):
        terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        found["spec"]["affinity"] = {"nodeAffinity": required}
        assert ("Not read: Nodes, which show where its own nodeSelector" in ask(answers).stderr) is is_named


REFUSALS = f"{NAMESPACE}/events?type=Warning"
OF_KUBERAY = (
    "Failed to create head Pod team/train-head, admission webhook "
    '"fractions.clearml-injector.io" denied the request: use 0.500'
)


def report(name, *, registered):
    return {"metadata": {"name": name}, "status": {"registered": registered, "gpus": []}}


@pytest.mark.parametrize(
    ("about", "reason", "said", "why"),
    [
        (("Job", "train"), "FailedCreate", OF_KUBERAY, "The injector denied it: use 0.500."),
        (("ReplicaSet", "train-6f7"), "FailedCreate", 'pods "x" is forbidden: exceeded quota: gpus', "gpus"),
        (("RayCluster", "train"), "FailedToCreateHeadPod", OF_KUBERAY, "of RayCluster train, and apply it"),
        (("RayCluster", "train-raycluster-x7k2p"), "FailedToCreateHeadPod", OF_KUBERAY, "use 0.500."),
    ],
    ids=["a job", "a deployment by a quota", "by a reason of its own", "of what a RayJob made"],
)
def test_a_refused_workload_is_explained_by_its_event_and_by_none_of_another(ask, about, reason, said, why):
    others = [
        event("Job", "train-other-x", "FailedCreate", OF_KUBERAY.replace("0.500", "0.250")),
        event("Job", "trains", "FailedCreate", OF_KUBERAY),
        event(*about, "Unhealthy", "probe failed"),
    ]
    ended = ask({REFUSALS: {"items": [*others, event(*about, reason, said)]}})
    assert ended.returncode == 0
    assert f"{about[0]} team/{about[1]} could not create a pod. It was rejected 3 times" in ended.stdout
    assert why in ended.stdout
    assert ask({REFUSALS: {"items": others}}).returncode == 1


def test_a_list_that_breaks_off_is_shown_as_far_as_it_was_read(ask):
    own = {"items": [event("Job", "train", "FailedCreate", OF_KUBERAY)]}
    ended = ask({REFUSALS: [own, ApiError(410, "expired")]})
    assert "The injector denied it: use 0.500." in ended.stdout
    assert ended.stderr == "Not read: Events: the API server answered 410: expired\n"


OTHERS = {"items": [event("Job", f"other-{number}", "FailedCreate", "no") for number in range(3)]}


def test_of_more_warnings_than_are_read_it_says_so(ask):
    ended = ask({REFUSALS: [OTHERS] * (MAX_PAGES + 1)})
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"Not read: Events: there are more than {MAX_PAGES * PAGE}\n")


def test_a_pod_that_is_gone_and_a_name_that_nobody_knows_end_with_1(ask):
    none = {REFUSALS: {"items": []}}
    gone = [event("Pod", "train", "ShareIdle", "deleted, so that it fits")]
    ended = ask({**none, f"{NAMESPACE}/events?involvedObject.name=train": {"items": gone}})
    assert (ended.returncode, "Event ShareIdle" in ended.stdout) == (1, True)
    ended = ask({**none, f"{NAMESPACE}/events?involvedObject.name=train": {"items": []}})
    assert (ended.returncode, "There is no Event on it either" in ended.stdout) == (1, True)
    ended = ask({**none, f"{NAMESPACE}/pods": {"items": [waiting(metadata={"name": "train-7f-x"})]}})
    assert "There are pods train-7f-x: use one of these names." in ended.stdout


def test_without_rights_it_says_so(ask):
    ended = ask({f"{NAMESPACE}/pods/train": ApiError(403, "pods is forbidden")})
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "pod team/train cannot be read: the API server answered 403: pods is forbidden" in ended.stderr
    ended = ask({})
    assert ended.returncode == 1
    assert "Its Events could not be read." in ended.stdout


def test_the_namespace_is_that_of_the_context(tmp_path):
    file = tmp_path / "config"
    context = {"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "team"}}
    cluster = {"name": "c", "cluster": {"server": "https://localhost"}}
    parts = {"contexts": [context], "clusters": [cluster], "users": [{"name": "u", "user": {}}]}
    file.write_text(yaml.safe_dump({"current-context": "a", **parts}))
    assert namespace_of(file) == namespace_of(file, "a") == "team"
    assert namespace_of(file, "other") == "default"
    file.write_text(file.read_text().replace("team", "7"))
    assert namespace_of(file) == "7"
    assert namespace_of(tmp_path / "missing") == "default"
    assert namespace_of(None) == "default"


def test_who_waits_for_a_card_to_be_divided_learns_why_it_is_not_and_which_are(ask):
    found, amounts = waiting(), {"nvidia.com/mig-3g.40gb": "1"}
    found["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    waits = event("Pod", "train", "MigWaits", "node gpu-1 can be divided for it after a pause")
    of_another = {**event("Pod", "train", "MigWaits", "no card has it"), "lastTimestamp": ago(700)}
    scheduler = {**event("Pod", "train", "FailedScheduling", "no"), "lastTimestamp": ago(1)}
    labels, changing = {"cdmo.clear.ml/gpu-partitioning": "mig"}, {"clearml-injector/mig-change": "off>half"}
    nodes = [a_node("gpu-a", labels), a_node("gpu-b", labels, annotations=changing)]
    answers = {
        f"{NAMESPACE}/pods/train": found,
        f"{NAMESPACE}/events?involvedObject.name=train": {"items": [of_another, scheduler, waits]},
    }
    said = ask(answers).stdout
    assert "the injector reports: node gpu-1 can be divided for it after a pause." in said
    assert "no card has it" not in said
    assert "Cards of gpu-b are being divided now" in ask({**answers, NODES: {"items": nodes}}).stdout


@pytest.mark.parametrize(
    ("status", "fragment"),
    [
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no devices"},
            "Error: no devices",
        ),
        (
            {"containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
            "container a: ImagePullBackOff",
        ),
        (
            {"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 3}}}]},
            "container i: exit status 3",
        ),
    ],
)
def test_what_keeps_the_containers_from_running_is_reported(ask, status, fragment):
    pod = waiting(status=status)
    pod["spec"]["nodeName"] = "gpu-0"
    assert fragment in ask({f"{NAMESPACE}/pods/train": pod}).stdout

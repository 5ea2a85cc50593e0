"""Steps "volumes", "init container", "memory" and the extras: what the pod itself gets."""

import pytest

from tests.webhook.support import CACHE, LIBRARY, UID, Webhook, container, decide, pod, policies

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SMALL = {"key": "nvidia.com/gpu.memory", "operator": "In", "values": ["23028"]}
ON_GPU_3 = {
    "weight": 100,
    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-3"]}]},
}
INIT = {
    "name": "gpu-limiter",
    "image": "docker.io/projecthami/hamicore:v2.10.0",
    "command": ["sh", "-c", "cp /k8s-vgpu/lib/nvidia/libvgpu.so.* /usr/local/vgpu/libvgpu.so"],
    "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
    "volumeMounts": [{"name": "gpu-limiter-library", "mountPath": "/usr/local/vgpu"}],
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 65534,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "imagePullPolicy": "IfNotPresent",
}


@pytest.mark.parametrize("spec", [{}, {"volumes": None, "initContainers": None}, {"volumes": []}])
def test_the_limiter_gets_a_library_volume_a_cache_and_its_init_container(spec):
    decided = decide(pod(**spec))
    assert decided.spec["volumes"] == [
        {"name": "gpu-limiter-library", "emptyDir": {"sizeLimit": "32Mi"}},
        {"name": "gpu-limiter-cache-train", "emptyDir": {"sizeLimit": "8Mi"}},
    ]
    assert decided.container()["volumeMounts"] == [
        {"name": "gpu-limiter-library", "mountPath": LIBRARY, "readOnly": True},
        {"name": "gpu-limiter-cache-train", "mountPath": CACHE},
    ]
    assert decided.spec["initContainers"] == [INIT]


def test_the_users_volumes_and_mounts_stay_before_ours():
    volume, mount = {"name": "data", "emptyDir": {}}, {"name": "data", "mountPath": "/data", "subPath": "a"}
    decided = decide(pod(containers=[container(volumeMounts=[mount])], volumes=[volume]))
    assert decided.spec["volumes"][0] == volume
    assert decided.container()["volumeMounts"][0] == mount
    assert len(decided.spec["volumes"]) == len(decided.container()["volumeMounts"]) == 3


def test_names_that_are_taken_are_numbered():
    volumes = [
        {"name": name, "emptyDir": {}}
        for name in ("gpu-limiter-library", "gpu-limiter-library-2", "gpu-limiter-cache-train")
    ]
    decided = decide(pod(volumes=volumes, initContainers=[container("gpu-limiter")]))
    assert [volume["name"] for volume in decided.spec["volumes"][3:]] == [
        "gpu-limiter-library-3",
        "gpu-limiter-cache-train-2",
    ]
    assert decided.spec["initContainers"][0] == {
        **INIT,
        "name": "gpu-limiter-2",
        "volumeMounts": [{"name": "gpu-limiter-library-3", "mountPath": "/usr/local/vgpu"}],
    }


def test_a_volume_that_a_container_mounts_without_having_it_is_not_supplied_by_us():
    overwriting = container("evil", volumeMounts=[{"name": "gpu-limiter-library", "mountPath": "/x"}])
    decided = decide(pod(initContainers=[overwriting]))
    assert decided.spec["volumes"][0]["name"] == "gpu-limiter-library-2"


def test_a_regular_container_of_our_name_makes_the_init_container_step_aside():
    decided = decide(pod(containers=[container("gpu-limiter")]))
    assert decided.spec["initContainers"][0]["name"] == "gpu-limiter-2"


def test_derived_names_have_at_most_63_characters_and_differ():
    long = "a" * 60
    gpu = {"nvidia.com/gpu": "1"}
    found = pod(containers=[container(long + "xyz")], initContainers=[container(long + "xya", limits=gpu)])
    names = [volume["name"] for volume in decide(found).spec["volumes"]]
    assert [len(name) for name in names] == [19, 63, 63]
    assert len(set(names)) == 3


@pytest.mark.parametrize(
    "path",
    [
        "/usr/local/vgpu",
        "/usr/local/vgpu/",
        "//usr/local//vgpu",
        "/usr/local/vgpu/libvgpu.so",
        "/usr/local/./vgpu/x",
        "/usr/share/../local/vgpu",
        "usr/local/vgpu",
        "/usr/local/vgpu-cache",
        "/usr/local/vgpu-cache/train.cache",
    ],
)
def test_a_user_mount_at_or_below_the_limiters_paths_is_denied(path):
    found = pod(
        containers=[container(volumeMounts=[{"name": "data", "mountPath": path}])],
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    decided = decide(found)
    assert decided.code == "mount-path"
    assert decided.message == (
        f'container "train" mounts {path}, where the GPU memory limiter goes: use another path'
    )


@pytest.mark.parametrize(
    "path", ["/usr/local", "/usr/local/vgpu2", "/usr/local/vgpu-caches", "/mnt/usr/local/vgpu"]
)
def test_a_user_mount_beside_or_above_them_is_not(path):
    found = pod(containers=[container(volumeMounts=[{"name": "data", "mountPath": path}])])
    assert decide(found).allowed


def test_a_mount_there_in_a_container_without_a_share_is_its_own_affair():
    side = container("side", volumeMounts=[{"name": "data", "mountPath": LIBRARY}])
    assert decide(pod(containers=[container("task"), side])).allowed


def test_without_a_limiter_nothing_is_mounted_and_nothing_refused():
    found = pod(containers=[container(volumeMounts=[{"name": "data", "mountPath": LIBRARY}])])
    decided = decide(found, policies("limiter: none"))
    assert "initContainers" not in decided.spec
    assert len(decided.container()["volumeMounts"]) == 1


@pytest.mark.parametrize(
    ("own", "copied"),
    [
        ({"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "1", "memory": "4Gi"}}, True),
        ({"requests": {"cpu": 1}}, True),
        ({"limits": {"memory": "1Gi"}, "requests": None}, True),
        ({"limits": {"ephemeral-storage": "1Gi", "nvidia.com/gpu": "1"}}, False),
        ({}, False),
        (None, False),
    ],
)
def test_our_init_container_copies_cpu_and_memory_alone(own, copied):
    found = pod()
    found["spec"]["containers"][0]["resources"] = own
    ours = decide(found).spec["initContainers"][0]
    if not copied:
        assert "resources" not in ours
    else:
        assert ours["resources"] == {field: amounts for field, amounts in own.items() if amounts}


def test_our_init_container_comes_first():
    decided = decide(pod(initContainers=[container("a"), container("b", restartPolicy="Always")]))
    assert [each["name"] for each in decided.spec["initContainers"]] == ["gpu-limiter", "a", "b"]


@pytest.mark.parametrize("affinity", [None, {}, {"nodeAffinity": None}, {"nodeAffinity": {REQUIRED: None}}])
def test_a_pod_without_node_affinity_is_bound_to_the_memory_and_prefers_the_node(affinity):
    decided = decide(pod(affinity=affinity))
    assert decided.spec["affinity"]["nodeAffinity"] == {
        REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [SMALL]}]},
        PREFERRED: [ON_GPU_3],
    }


def test_other_affinity_stays():
    other = {"podAffinity": {"x": 1}, "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"y": 2}}]}}
    affinity = decide(pod(affinity=other)).spec["affinity"]
    assert affinity["podAffinity"] == {"x": 1}
    assert affinity["nodeAffinity"][PREFERRED] == [{"weight": 1, "preference": {"y": 2}}, ON_GPU_3]


def test_the_memory_expression_enters_every_term_that_is_not_empty():
    fields = [{"key": "metadata.name", "operator": "In", "values": ["gpu-3"]}]
    present = {"key": "nvidia.com/gpu.present", "operator": "Exists"}
    terms = [
        {},
        {"matchFields": fields},
        {"matchExpressions": []},
        {"matchExpressions": [present], "matchFields": fields},
        {"matchExpressions": None, "matchFields": fields},
    ]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    after = decide(pod(affinity=affinity)).spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert after == [
        {},
        {"matchFields": fields, "matchExpressions": [SMALL]},
        {"matchExpressions": []},
        {"matchExpressions": [present, SMALL], "matchFields": fields},
        {"matchExpressions": [SMALL], "matchFields": fields},
    ]


@pytest.mark.parametrize("terms", [[{}], [], None, [{"matchExpressions": []}, {"matchFields": None}]])
def test_a_required_affinity_of_empty_terms_alone_is_denied(terms):
    decided = decide(pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}))
    assert decided.code == "affinity-matches-nothing"
    assert decided.message == (
        "the required node affinity has only empty terms, which match no node: give a term an expression"
    )


def required(*terms):
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def host(*names):
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}]}


@pytest.mark.parametrize(
    ("demands", "what"),
    [
        (
            required(*[host(f"n{i}") for i in range(101)]),
            "101 expressions in required node affinity, more than 100",
        ),
        (required(host(*map(str, range(1001)))), "1001 values in required node affinity, more than 1000"),
        ({"tolerations": [{"key": f"k{i}"} for i in range(101)]}, "101 tolerations, more than 100"),
        ({"nodeSelector": {f"k{i}": "" for i in range(101)}}, "101 nodeSelector labels, more than 100"),
    ],
)
def test_more_demands_than_can_be_put_to_every_node_are_denied(demands, what):
    decided = decide(pod(**demands))
    assert decided.code == "too-many-demands"
    assert decided.message == f"the pod has {what}: label the nodes, and ask for that label"


def expression(**fields):
    return {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"], **fields}]}


LONG = "x" * 2**20


@pytest.mark.parametrize(
    ("demands", "what"),
    [
        ({"nodeSelector": {LONG: "v"}}, "a nodeSelector key"),
        ({"nodeSelector": {"k": "x" * 64}}, "a nodeSelector value"),
        ({"nodeName": "x" * 254}, "spec.nodeName"),
        ({"tolerations": [{"key": "x" * 318}]}, "a toleration's key"),
        ({"tolerations": [{"key": "k", "value": "x" * 64}]}, "a toleration's value"),
        ({"tolerations": [{"operator": LONG}]}, "a toleration's operator"),
        ({"tolerations": [{"effect": LONG}]}, "a toleration's effect"),
        (required(expression(key="x" * 318)), "a key in required node affinity"),
        (required(expression(operator=LONG)), "an operator in required node affinity"),
        (required(expression(values=["v", "x" * 64])), "a value in required node affinity"),
        (
            required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x" * 254]}]}),
            "a value in required node affinity",
        ),
    ],
)
def test_a_demand_longer_than_kubernetes_allows_is_denied(demands, what):
    decided = decide(pod(**demands))
    assert decided.code == "too-many-demands"
    assert decided.message.startswith(f"{what} of the pod has ")
    assert decided.message.endswith("shorten it")
    assert len(decided.message) <= 200


@pytest.mark.parametrize(
    "demands",
    [
        {"nodeSelector": {"x" * 253 + "/" + "x" * 63: "x" * 63}},
        {"nodeName": "x" * 253},
        {"tolerations": [{"key": "x" * 317, "value": "x" * 63, "effect": "PreferNoSchedule"}]},
        required(expression(key="x" * 317, values=["x" * 63])),
    ],
)
def test_a_demand_as_long_as_kubernetes_allows_is_put_to_the_nodes(demands):
    assert decide(pod(**demands)).code in {"injected", "no-matching-node"}


def test_empty_terms_are_demands_too():
    terms = [expression(operator="Exists", values=None), *[{} for _ in range(100)]]
    decided = decide(pod(**required(*terms)))
    assert decided.code == "too-many-demands"
    assert "101 terms in required node affinity" in decided.message


def test_as_many_demands_as_are_allowed_are_not_too_many_with_ours_beside_them():
    webhook = Webhook()
    names = [node.name for node in webhook.ledger.view().nodes]
    first = webhook.decide(pod(**required(*[host(*names) for _ in range(100)])))
    assert first.code == "injected"
    assert webhook.decide(first.stored).code == "unchanged"


def test_a_node_selector_does_not_spare_the_expression():
    decided = decide(pod(nodeSelector={"nvidia.com/gpu.memory": "81920"}))
    (term,) = decided.spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["81920"]
    assert decided.annotations["clearml-injector/memory-mib"] == "40960"


def test_the_share_is_rounded_down_and_the_reserve_taken_off():
    decided = decide(pod(fraction="0.375"), policies("memory: {reserveMiB: 100}"))
    assert decided.annotations["clearml-injector/memory-mib"] == str(23028 * 3 // 8 - 100)


@pytest.mark.parametrize("uid", [UID, ""])
def test_a_share_that_the_reserve_eats_up_is_denied_and_leaves_no_reservation(uid):
    webhook = Webhook(policies("memory: {reserveMiB: 100000}"))
    decided = webhook.decide(pod(fraction="0.125"), uid=uid)
    assert {gpu.used for node in webhook.ledger.view().nodes for gpu in node.gpus} == {0}
    assert decided.code == "memory-too-small"
    assert decided.message == (
        "the share is 2878 MiB of a GPU of 23028, and policy default reserves 100000 of it:"
        " use a larger fraction"
    )


def test_an_assumed_gpu_binds_no_memory_and_prefers_no_node():
    policy_set = policies("assume: {gpusPerNode: 4, gpuMemoryMiB: 16384}")
    decided = decide(pod(nodeSelector={"pool": "not-yet"}), policy_set)
    assert decided.annotations["clearml-injector/memory-mib"] == "8192"
    assert "affinity" not in decided.spec
    assert decided.reply["response"]["auditAnnotations"]["note"] == "degraded"


def test_without_an_assumption_a_pod_that_no_node_could_hold_is_denied():
    decided = decide(pod(nodeSelector={"pool": "nowhere"}))
    assert decided.code == "no-matching-node"
    assert decided.message.startswith("no node of this cluster could ever hold the pod: ")


def test_runtime_class_and_tolerations_are_added_where_missing():
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    policy_set = policies(f"runtimeClassName: nvidia\ntolerations: [{toleration}]".replace("'", '"'))
    decided = decide(pod(), policy_set)
    assert (decided.spec["runtimeClassName"], decided.spec["tolerations"]) == ("nvidia", [toleration])
    own = {"key": "x", "operator": "Exists"}
    decided = decide(pod(runtimeClassName="kata", tolerations=[own, toleration]), policy_set)
    assert (decided.spec["runtimeClassName"], decided.spec["tolerations"]) == ("kata", [own, toleration])
    decided = decide(pod(tolerations=[own]), policy_set)
    assert decided.spec["tolerations"] == [own, toleration]


def test_annotations_say_what_was_decided_and_forged_ones_are_overwritten():
    forged = {"clearml-injector/slices": "8", "clearml-injector/memory-mib": "1", "note": "mine"}
    decided = decide(pod(metadata={"annotations": forged}))
    assert decided.annotations == {
        "note": "mine",
        "clearml-injector/injected": decided.outcome.policy.marker,
        "clearml-injector/slices": "4",
        "clearml-injector/gpu-container": "train",
        "clearml-injector/gpu-index": "0",
        "clearml-injector/memory-mib": "11514",
        "clearml-injector/reservation": decided.reply["response"]["uid"],
    }


def test_a_forged_annotation_that_does_not_hold_for_this_pod_is_removed():
    forged = {"clearml-injector/reservation": "x", "clearml-injector/gpu-index": "7"}
    policy_set = policies("resources: {mode: pooled}\nassume: {gpusPerNode: 1, gpuMemoryMiB: 81920}")
    decided = decide(pod(metadata={"annotations": forged}), policy_set, dryRun=True)
    assert set(decided.annotations) == {
        "clearml-injector/injected",
        "clearml-injector/slices",
        "clearml-injector/gpu-container",
        "clearml-injector/memory-mib",
    }


def test_a_pod_without_metadata_but_its_label_gets_annotations_made():
    found = pod(metadata={"annotations": None})
    assert decide(found).annotations["clearml-injector/slices"] == "4"


def test_clearml_images_need_the_hosts_pids_and_must_fit():
    policy_set = policies("limiter: clearml-image")
    image = "clearml/fractional-gpu:u22-cu12.3-8gb"
    decided = decide(pod(containers=[container(image=image)]), policy_set)
    assert decided.spec["hostPID"] is True
    assert decided.container()["image"] == image
    decided = decide(pod(fraction="0.250", containers=[container(image=image)]), policy_set)
    assert decided.code == "image-does-not-fit"
    assert decided.message == (
        "the image limits itself to 8192 MiB, more than the share of 5757 MiB on a GPU of 23028 MiB:"
        " use a smaller image or a larger fraction"
    )
    decided = decide(pod(), policy_set)
    assert decided.message == (
        'image "example.com/train:1" limits no memory by itself, which limiter clearml-image needs:'
        " use an image of the kind the policy names"
    )

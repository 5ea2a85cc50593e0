"""Rules between the keys of one policy or limiter."""

import pytest

from tests.policies.support import problems

INIT = """\
initContainer: {{image: 'a/b:{tag}', command: [cp], env: {env}}}
library: {{mountPath: /lib/x, sizeLimit: 1Mi}}"""


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        ("resources: [example.com/nic]", '"example.com/nic" is never denied'),
        ("resources: [nvidia.com/gpu]", '"nvidia.com/gpu" requests GPUs, so it cannot be allowed'),
        ("resources: [nvidia.com/gpu-3]", '"nvidia.com/gpu-3" requests GPUs, so it cannot be allowed'),
        ("resources: [nvidia.com/mig-1g.5gb]", '"nvidia.com/mig-1g.5gb" requests GPUs, so it cannot be'),
        ("deviceClasses: [gpu.nvidia.com]", "allow.deviceClasses[0]: "),
        ("deviceClasses: [rdma.example.com, mig.nvidia.com]", "allow.deviceClasses[1]: "),
        (f"deviceClasses: [{'a' * 54}]", "allow.deviceClasses[0]: "),
    ],
)
def test_what_no_policy_may_allow_is_a_mistake(allow, expected):
    (problem,) = problems(default=f"kind: Policy\nname: default\nallow:\n  {allow}\n")
    assert problem.startswith("default.yaml:4: ")
    assert expected in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quotas: {whenDegraded: wait}", "quotas.whenDegraded: wait is only for whenOverQuota: wait"),
        ("reclaimIdle: evict", "reclaimIdle: evict needs idleAfter: set it, such as idleAfter: 4h"),
        ("idleAfter: 30s", 'idleAfter: "30s" must be whole minutes or hours such as 30m or 4h'),
        ('fractions: {"0.5": 3}', 'fractions."0.5": 3 does not match the text: "0.5" of 8 slices is 4'),
        ('fractions: {"0.3": 2}', '"0.3" of 8 slices is 3, rounded up'),
        ('fractions: {"1.2": 10}', 'fractions."1.2": "1.2" is neither a part of one GPU nor whole GPUs'),
        ('fractions: {"0.000": 1}', 'fractions."0.000": "0.000" is neither a part of one GPU nor whole GPUs'),
        ('fractions: {"nan": 2}', '"nan" is not a plain decimal number such as "0.500"'),
        ('fractions: {"1.5": 12}', "12 slices are neither 1 to 8 of one GPU nor whole GPUs"),
        ("fractions: {0.500: 4}", 'a key must be text: quote it, "0.500"'),
        ("aliases: {gpucores: ignore}", "aliases.gpucores: is about HAMi's pods: set hami: true"),
        ("aliases: {hami: true, gpucores: compute}\nlimiter: none", 'aliases.gpucores: limiter "none"'),
        ("aliases: {hami: true, gpucores: compute}\nlimits: {from: agent}", "aliases.gpucores: the agent"),
        ("aliases: {hami: true, gpucores: compute}\nresources: {mode: mig}", "a MIG instance has its own"),
        ("container: {sidecars: [{name: a}, {}]}", "container.sidecars[1]: matches no sidecar: set its name"),
        ("limiter: hami", 'limiter: "hami" is not defined (did you mean "hami-core"?)'),
        ("resources: {prefer: [mig, pooled]}", "resources.prefer: must list mig and the policy's own mode,"),
        ("resources: {mode: mig, prefer: [mig, per-gpu]}", "resources.prefer: needs a mode of slices, not"),
        ("resources: {prefer: [mig, per-gpu]}\nslicesPerGpu: 4", "slicesPerGpu: MIG memory is counted in"),
        ("resources: {prefer: [mig, per-gpu]}\nenv: {A: '{index}'}", "env.A: {index} has no value for MIG"),
        ("resources: {mode: mig}\nslicesPerGpu: 4", "slicesPerGpu: MIG memory is counted in eighths"),
        ("resources: {mode: mig}\nassume: {gpusPerNode: 1, gpuMemoryMiB: 9}", "assume: does not state the"),
        ("resources: {mode: mig}\nlimits: {from: agent}", "limits.from: a MIG instance is its own limit"),
        ("resources: {mode: mig}\ncontainers: any-gpu", "containers: a MIG instance goes to one container"),
        ('resources: {mode: mig}\nfractions: {"0.500": 4, "2": 16}', 'fractions."2": is 2 GPUs, but a MIG'),
        ("resources: {oversized: take}", "resources.oversized: is about MIG instances, and pods get none"),
        ("resources: {mode: mig}\ncompute: 50", "compute: a MIG instance has its own compute"),
        ("resources: {mode: mig}\nmemory: {reserveMiB: 9}", "reserveMiB: a MIG instance needs no reserve"),
        ("resources: {mode: mig, name: nvidia.com/gpu}", "is not for mode mig, in which"),
        ("resources: {mode: mig}\nenv: {A: '{memory_mib}'}", "{memory_mib} has no value in mode mig"),
        ("limits: {from: agent}\nlimiter: clearml-image", '"clearml-image" works by the pod\'s image'),
        ("limits: {from: agent}\nenv: {A: '{memory_mib}'}", "env.A: {memory_mib} has no value at admission"),
        ("limiter: custom", "or add a file with kind: Limiter and name: custom"),
        ("resources: {name: nvidia.com/gpu}", '"nvidia.com/gpu" must end in {index} in mode per-gpu'),
        ("env: {A: '{memory}'}", "unknown placeholder {memory}: known ones are {memory_mib}, {slices}"),
        ("env: {A: 'a}b'}", "a brace outside a placeholder"),
        ("env: {CUDA_DISABLE_CONTROL: 'true'}", "CUDA_DISABLE_CONTROL belongs to the limiter"),
        ("env: {LD_PRELOAD: /x.so}", "LD_PRELOAD belongs to the limiter"),
        ("resources: {mode: pooled}\nenv: {A: '{index}'}", "env.A: {index} has no value in mode pooled"),
        ("compute: 30\nlimiter: none", 'compute: limiter "none" limits no compute'),
        ("compute: 30\nlimits: {from: agent}", "compute: the agent limits no compute"),
        ("tolerations: [{operator: Equal}]", "tolerations[0]: without a key the operator must be Exists"),
        ("tolerations: [{key: a, operator: Exists, value: b}]", "operator Exists allows no value"),
        ("namespaces: [Team]", '"Team" must be a DNS label'),
    ],
)
def test_a_policy_that_breaks_a_rule_is_denied_with_that_rule(text, expected):
    assert expected in "\n".join(problems(a=f"kind: Policy\nname: a\n{text}\n"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("env: {CUDA_DEVICE_MEMORY_LIMIT_0: '{memory_mib}Mi'}", "CUDA_DEVICE_MEMORY_LIMIT_0 must be"),
        ("env: {CUDA_DEVICE_MEMORY_LIMIT: '4Gi'}", 'CUDA_DEVICE_MEMORY_LIMIT must be "{memory_mib}m"'),
        ("env: {NVIDIA_GPU_MEMORY_LIMIT: '0'}", 'NVIDIA_GPU_MEMORY_LIMIT must be "{memory_mib}"'),
        ("env: {NVIDIA_GPU_MEMORY_REQUEST: '1'}", 'NVIDIA_GPU_MEMORY_REQUEST must be "{memory_mib}"'),
        ("env: {NVIDIA_GPU_MEMORY_LIMIT: '{memory_mib}m'}", 'NVIDIA_GPU_MEMORY_LIMIT must be "{memory_mib}"'),
        ("env: {LD_PRELOAD: /x.so}", "use ldPreload"),
        ("env: {A=B: x}", "must be a name of letters, digits and _"),
        ("ldPreload: lib/x.so", '"lib/x.so" must be an absolute, normalised path'),
        ("cache: {mountPath: /a/../b, sizeLimit: 8Mi}", '"/a/../b" must be an absolute, normalised path'),
        ("library: {mountPath: /a, sizeLimit: 8Mi}", "initContainer and library need each other"),
        (
            INIT.format(tag="latest", env="{NVIDIA_VISIBLE_DEVICES: void}"),
            "must be pinned to a tag other than latest",
        ),
        *(
            (
                INIT.format(tag=f"v1@{digest}", env="{NVIDIA_VISIBLE_DEVICES: void}"),
                "must end in a tag, or in a digest: @sha256: and 64 hexadecimal digits",
            )
            for digest in ("sha256:", "sha256:abc", f"sha256:{'A' * 64}", f"sha256:{'a' * 65}", "md5:abc")
        ),
        (INIT.format(tag="v1", env="{}"), "must set NVIDIA_VISIBLE_DEVICES: void"),
        (
            INIT.format(tag="v1", env="{NVIDIA_VISIBLE_DEVICES: void}")
            + "\ncache: {mountPath: /lib, sizeLimit: 1Mi}",
            'cache.mountPath: "/lib" and library.mountPath "/lib/x" overlap',
        ),
        ("image: {pattern: '(a)(b)'}", "must have one group, the GB that the image limits to; it has 2"),
        ("image: {pattern: '('}", "is not a regular expression"),
    ],
)
def test_a_limiter_that_breaks_a_rule_is_denied_with_that_rule(text, expected):
    assert expected in "\n".join(problems(own=f"kind: Limiter\nname: own\n{text}\n"))


def test_a_root_init_container_is_refused():
    text = INIT.format(tag="v1", env="{NVIDIA_VISIBLE_DEVICES: void}").replace("[cp]", "[cp], runAsUser: 0")
    assert "initContainer.runAsUser" in "\n".join(problems(own=f"kind: Limiter\nname: own\n{text}\n"))


def test_a_limiter_that_names_the_index_does_not_fit_pooled_mode():
    own = "kind: Limiter\nname: own\nenv: {WHICH: '{index}'}\n"
    policy = "kind: Policy\nname: a\nlimiter: own\nresources: {mode: pooled}\n"
    assert problems(own=own, a=policy) == [
        'a.yaml:3: limiter: "own" uses {index} in WHICH, but mode pooled has no index'
    ]


def test_a_queue_names_no_limiter_where_the_agent_puts_in_one_for_all():
    default = "kind: Policy\nname: default\nlimits: {from: agent}\n"
    queues = "kind: Queues\nqueues: {a: {namespaces: [x], limiter: none}}"
    (problem,) = problems(default=default, queues=queues)
    assert "limiter: has no effect under a policy with limits.from agent" in problem


def test_a_queues_order_that_no_policy_can_follow_is_one_mistake():
    def teams(count):
        return {f"p{n}": f"kind: Policy\nname: team{n}\nnamespaces: [t{n}]" for n in range(count)}

    queues = "kind: Queues\nqueues: {mixed: {prefer: [mig, per-gpu]}}"
    [problem] = problems(queues=queues, **teams(2))
    missing = "resources.prefer is missing in policy default, team0, team1"
    assert f"mixed.prefer: orders slices and instances, but {missing}" in problem
    assert problem.endswith("add it, or restrict the entry by namespaces")

"""A queue's entry for all namespaces loosens nothing."""

import pytest

from tests.policies.support import problems


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("limiter: none", "queues.q.limiter: relaxes policy default (limiter none instead of hami-core)"),
        ('fractions: {"0.125": 1, "1.000": 8}', "queues.q.fractions: relaxes policy default (fraction"),
        ("quota: {slices: 9}", "quota: relaxes policy default (quota of queue q: 9 instead of 8 slices)"),
        ("quota: {maxPods: 2}", "(quota of queue q: no limit instead of 8 slices)"),
        ("quota: {slices: 8, memoryMiB: 81921}", "(quota of queue q: 81921 instead of 81920 memoryMiB)"),
        ("policy: loose", "queues.q.policy: relaxes policy default (limiter none instead of hami-core)"),
        ("policy: open", "(memory.reserveMiB 0 instead of 100)"),
        ("policy: open", "(quota of namespace n: no limit instead of 5 slices)"),
        ("policy: open", "(quotas.whenDegraded admit instead of deny)"),
        ("policy: open", "(hideGpusFromOthers false)"),
        ("reclaimIdle: never", "queues.q.reclaimIdle: relaxes policy default (reclaimIdle never instead of"),
        ("idleAfter: 2h", "queues.q.idleAfter: relaxes policy default (idleAfter 120m instead of 60m)"),
        ("policy: patient", "queues.q.policy: relaxes policy default (reclaimGrace 20m instead of 10m)"),
        ("policy: open", "(assume.gpuMemoryMiB 81920 instead of 40960)"),
        ("policy: open", "(allow.hostPaths /etc/containerd)"),
        ("policy: open", "(allow.capabilities ALL)"),
        ("policy: open", "(allow.resources nvidia.com/hostdev)"),
        ("policy: open", "(allow.overrideEnv true)"),
        ("policy: open", "(allow.hostIPC true)"),
        ("policy: open", "(allow.deviceClasses rdma.example.com)"),
        ("policy: open", "(protectedHostPaths without /opt/agent)"),
        ("policy: by-agent", "(limits.from agent instead of admission)"),
        ("policy: halves", "(quota of queue q: 8 instead of 8 slices, of 2 to a GPU instead of 8)"),
    ],
)
def test_an_entry_for_all_namespaces_may_relax_nothing(entry, expected):
    base = (
        "kind: Policy\nname: default\nmemory: {reserveMiB: 100}\nprotectedHostPaths: [/opt/agent]\n"
        "assume: {gpusPerNode: 8, gpuMemoryMiB: 40960}\nidleAfter: 1h\nreclaimIdle: evict\n"
        "quotas: {queues: {q: {slices: 8, memoryMiB: 81920}}, namespaces: {n: {slices: 5}}}\n"
    )
    others = (
        "kind: Policy\nname: loose\nlimiter: none\n---\nkind: Policy\nname: open\nhideGpusFromOthers: false\n"
    )
    others += "quotas: {whenDegraded: admit}\nassume: {gpusPerNode: 8, gpuMemoryMiB: 81920}\n"
    others += "allow: {hostPaths: [/etc/containerd], capabilities: [ALL], overrideEnv: true,"
    others += " hostIPC: true, resources: [nvidia.com/hostdev], deviceClasses: [rdma.example.com]}\n"
    others += "---\nkind: Policy\nname: halves\nslicesPerGpu: 2\nquotas: {queues: {q: {slices: 8}}}\n"
    others += "---\nkind: Policy\nname: by-agent\nlimits: {from: agent}\nmemory: {reserveMiB: 100}\n"
    others += "---\nkind: Policy\nname: patient\nlimiter: nvidia-driver\nidleAfter: 1h\n"
    others += "reclaimIdle: evict\nreclaimGrace: 20m\n"
    files = {"default": base, "others": others, "queues": f"kind: Queues\nqueues:\n  q:\n    {entry}\n"}
    assert expected in "\n".join(problems(**files))
    bound = {**files, "queues": files["queues"] + "    namespaces: [clearml]\n"}
    assert problems(**bound) == []


@pytest.mark.parametrize(
    "entry",
    ["limiter: hami-core", 'fractions: {"0.125": 1}', "quota: {slices: 4, memoryMiB: 0}", "policy: tight"],
)
def test_an_entry_for_all_namespaces_may_tighten(entry):
    tight = "kind: Policy\nname: tight\nmemory: {reserveMiB: 9}\nprivileged: any-container\n"
    assert problems(tight=tight, queues=f"kind: Queues\nqueues:\n  q:\n    {entry}\n") == []


def test_a_policy_of_another_mode_with_the_same_limiter_relaxes_nothing():
    pooled = "kind: Policy\nname: pooled\nresources: {mode: pooled}\n"
    assert problems(pooled=pooled, queues="kind: Queues\nqueues: {q: {policy: pooled}}\n") == []


def test_an_entry_must_not_relax_the_policy_of_any_namespace_either():
    tight = 'kind: Policy\nname: tight\nnamespaces: [n]\nfractions: {"0.125": 1}\n'
    relaxed = (
        'fraction "0.250"',
        "memory.allowed true",
    )  # who lists fractions takes no memory unless he says so
    assert problems(tight=tight, queues="kind: Queues\nqueues: {q: {policy: default}}\n") == [
        f"queues.yaml:2: queues.q.policy: relaxes policy tight ({what}) for every pod that has this"
        " queue's label: name the namespaces in which it applies"
        for what in relaxed
    ]

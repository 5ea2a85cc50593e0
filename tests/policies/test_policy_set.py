"""Which policy a pod follows, and what a queue's entry may change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.placement_request import Quota
from ledger.queue_names import sanitised
from modes.fraction import Fraction
from policies.model.effective import QuotaRule
from tests.policies.support import policy_set, problems

TEAM = "kind: Policy\nname: team\nnamespaces: [team-a, team-b]\nlimiter: none\n"
STRICT = "kind: Policy\nname: strict\nmemory: {reserveMiB: 512}\n"
QUEUES = """
kind: Queues
queues:
  gpu_0.5:
    id: 1f2e3d
    namespaces: [clearml]
    policy: strict
    limiter: none
  small:
    fractions: {"0.125": 1}
"""


def names(policies, *asked):
    return [policies.resolve(*pod).name for pod in asked]


def test_a_queues_policy_goes_before_the_namespaces_and_that_before_default():
    policies = policy_set(team=TEAM, strict=STRICT, queues=QUEUES.replace("[clearml]", "[clearml, team-a]"))
    asked = [
        ("clearml", "gpu_0.5", None),
        ("team-a", "gpu_0.5", None),
        ("team-b", None, None),
        ("x", None, None),
    ]
    assert names(policies, *asked) == ["strict", "strict", "team", "default"]


def test_an_entry_applies_in_its_namespaces_only():
    policies = policy_set(strict=STRICT, queues=QUEUES)
    assert policies.resolve("clearml", "gpu-0-5", None).limiter.name == "none"
    elsewhere = policies.resolve("default", "gpu-0-5", None)
    assert (elsewhere.name, elsewhere.limiter.name, elsewhere.queue) == ("default", "hami-core", None)


@pytest.mark.parametrize(
    ("name", "identity"), [("gpu_0.5", None), ("gpu-0-5", None), ("GPU 0.5", None), ("other", "1f2e3d")]
)
def test_a_queue_is_found_by_name_as_written_or_sanitised_and_by_id(name, identity):
    policy = policy_set(strict=STRICT, queues=QUEUES).resolve("clearml", name, identity)
    assert (policy.name, policy.queue) == ("strict", "gpu_0.5")


def test_an_entry_without_a_policy_changes_the_namespaces_own():
    policies = policy_set(team=TEAM, strict=STRICT, queues=QUEUES)
    policy = policies.resolve("team-a", "small", None)
    assert (policy.name, policy.limiter.name, policy.queue) == ("team", "none", "small")
    assert policy.fractions == {"0.125": Fraction(1, 8)}


def test_the_marker_names_the_policy_and_the_digest():
    policies = policy_set(team=TEAM)
    assert policies.resolve("team-a", None, None).marker == f"team@{policies.digest}"


@given(st.text(), st.none() | st.text(), st.none() | st.text())
def test_resolving_never_fails(namespace, queue, identity):
    assert ALL.resolve(namespace, queue, identity).name in {"default", "team", "strict"}


ALL = policy_set(team=TEAM, strict=STRICT, queues=QUEUES)


def test_labels_of_queues_are_small_with_dashes():
    assert sanitised("gpu-fraction-0_500") == "gpu-fraction-0-500"
    assert sanitised("My Queue.v2") == "my-queue-v2"


def test_fewer_slices_leave_texts_out_and_remember_them():
    policy = policy_set(four="kind: Policy\nname: four\nnamespaces: [n]\nslicesPerGpu: 4\n").resolve(
        "n", None, None
    )
    assert policy.fractions == {"0.250": Fraction(1, 4), "0.500": Fraction(2, 4), "0.750": Fraction(3, 4)}
    assert policy.left_out == ("0.125", "0.375", "0.625", "0.875")


def test_sixteenths_and_whole_gpus_are_what_their_text_says():
    table = '{"0.0625": 1, "1.000": 16, "2.0": 32}'
    text = f"kind: Policy\nname: a\nnamespaces: [n]\nslicesPerGpu: 16\nfractions: {table}\n"
    assert policy_set(a=text).resolve("n", None, None).fractions == {
        "0.0625": Fraction(1, 16),
        "1.000": Fraction(16, 16),
        "2.0": Fraction(32, 16),
    }


QUOTAS = """
kind: Policy
name: team
namespaces: [team-a]
quotas:
  namespaces: {team-a: {slices: 16, maxPods: 4}}
  queues: {big_q: {slices: 8}, other: {}}
  queueMaxPods: true
  whenDegraded: admit
"""
QUOTA_QUEUES = """
kind: Queues
queues:
  big_q: {queueSettings: {maxPods: 3}}
  own: {namespaces: [team-a], quota: {slices: 99}, queueSettings: {maxPods: 2}}
"""


def quotas(queue):
    return policy_set(a=QUOTAS, q=QUOTA_QUEUES).resolve("team-a", queue, None).quotas


def test_quotas_are_those_of_the_pods_namespace_and_queue():
    namespace = QuotaRule(Quota("namespace", "team-a", slices=16, max_pods=4), "admit")
    assert quotas(None) == (namespace,)
    assert quotas("other") == (namespace,)
    big = Quota("queue", "big-q", 8, 3, ("big-q",), ("team-a",))
    assert quotas("Big.Q") == (namespace, QuotaRule(big, "admit"))
    own = Quota("queue", "own", 99, 2, ("own",), ("team-a",))
    assert quotas("own") == (namespace, QuotaRule(own, "admit"))


def test_a_queue_with_an_id_is_held_to_its_quota_under_name_and_id():
    queues = "kind: Queues\nqueues: {My_Q: {id: 1f2e, quota: {slices: 4}}}\n"
    for labels in ((None, "1f2e"), ("my.q", None), ("MY-Q", "1f2e"), ("other", "1f2e"), ("my_q", "other")):
        rules = policy_set(q=queues).resolve("x", *labels).quotas
        assert [rule.quota for rule in rules] == [Quota("queue", "my-q", 4, keys=("my-q", "#1f2e"))]


def test_a_pod_that_names_two_queues_is_held_to_both():
    queues = "kind: Queues\nqueues: {a: {id: 1, quota: {slices: 4}}, b: {id: 2, quota: {slices: 8}}}\n"
    queues = queues.replace("id: 1", 'id: "1"').replace("id: 2", 'id: "2"')
    rules = policy_set(q=queues).resolve("x", "a", "2").quotas
    assert [(rule.quota.name, rule.quota.keys) for rule in rules] == [("b", ("b", "#2")), ("a", ("a", "#1"))]


SERVED = """
kind: Policy
name: default
quotas: {queues: {free: {slices: 8}, own: {slices: 8}}}
---
kind: Policy
name: blue
namespaces: [blue-1, blue-2]
quotas: {queues: {free: {slices: 4}}}
---
kind: Queues
queues:
  own: {namespaces: [red], quota: {slices: 2}}
  wide: {quota: {slices: 2}}
  free: {namespaces: [blue-2, green]}
"""


@pytest.mark.parametrize(
    ("namespace", "queue", "namespaces", "others"),
    [
        ("red", "own", ("red",), ()),
        ("x", "own", None, ("blue-1", "blue-2", "red")),
        ("x", "wide", None, ()),
        ("blue-1", "wide", None, ()),
        ("blue-2", "free", ("blue-2",), ()),
        ("blue-1", "free", ("blue-1",), ()),
        ("green", "free", ("green",), ()),
        ("x", "free", None, ("blue-1", "blue-2", "green")),
    ],
)
def test_a_quota_of_a_queue_counts_where_pods_are_held_to_it(namespace, queue, namespaces, others):
    (rule,) = policy_set(default=SERVED).resolve(namespace, queue, None).quotas
    assert (rule.quota.namespaces, rule.quota.other_namespaces) == (namespaces, others)


def test_a_queue_in_more_namespaces_than_can_be_told_is_counted_everywhere():
    names = ", ".join(f"n{number}" for number in range(1001))
    queues = f"kind: Queues\nqueues: {{q: {{namespaces: [{names}], quota: {{slices: 4}}}}}}\n"
    (rule,) = policy_set(q=queues).resolve("n5", "q", None).quotas
    assert rule.quota.namespaces is None


def test_the_charts_max_pods_count_only_when_the_policy_says_so():
    policies = policy_set(a=QUOTAS.replace("queueMaxPods: true", "queueMaxPods: false"), q=QUOTA_QUEUES)
    quota = policies.resolve("team-a", "big_q", None).quotas[1].quota
    assert (quota.name, quota.slices, quota.max_pods) == ("big-q", 8, None)


def test_pods_elsewhere_have_no_quota():
    assert policy_set(a=QUOTAS, q=QUOTA_QUEUES).resolve("x", "big_q", None).quotas == ()


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("limiter: none", "queues.q.limiter: relaxes policy default (limiter none instead of hami-core)"),
        (
            'fractions: {"0.125": 1, "1.000": 8}',
            'queues.q.fractions: relaxes policy default (fraction "1.000")',
        ),
        ("quota: {slices: 9}", "quota: relaxes policy default (quota of queue q: 9 instead of 8 slices)"),
        ("quota: {maxPods: 2}", "(quota of queue q: no limit instead of 8 slices)"),
        ("policy: loose", "queues.q.policy: relaxes policy default (limiter none instead of hami-core)"),
        ("policy: open", "(memory.reserveMiB 0 instead of 100)"),
        ("policy: open", "(quota of namespace n: no limit instead of 5 slices)"),
        ("policy: open", "(quotas.whenDegraded admit instead of deny)"),
        ("policy: open", "(hideGpusFromOthers false)"),
        ("policy: open", "(assume.gpuMemoryMiB 81920 instead of 40960)"),
        ("policy: open", "(allow.hostPaths /etc/containerd)"),
        ("policy: open", "(allow.capabilities ALL)"),
        ("policy: open", "(allow.resources nvidia.com/hostdev)"),
        ("policy: open", "(allow.overrideEnv true)"),
        ("policy: halves", "(quota of queue q: 8 instead of 8 slices, of 2 to a GPU instead of 8)"),
    ],
)
def test_an_entry_for_all_namespaces_may_relax_nothing(entry, expected):
    base = (
        "kind: Policy\nname: default\nmemory: {reserveMiB: 100}\n"
        "assume: {gpusPerNode: 8, gpuMemoryMiB: 40960}\n"
        "quotas: {queues: {q: {slices: 8}}, namespaces: {n: {slices: 5}}}\n"
    )
    others = (
        "kind: Policy\nname: loose\nlimiter: none\n---\nkind: Policy\nname: open\nhideGpusFromOthers: false\n"
    )
    others += "quotas: {whenDegraded: admit}\nassume: {gpusPerNode: 8, gpuMemoryMiB: 81920}\n"
    others += "allow: {hostPaths: [/etc/containerd], capabilities: [ALL], overrideEnv: true,"
    others += " resources: [nvidia.com/hostdev]}\n"
    others += "---\nkind: Policy\nname: halves\nslicesPerGpu: 2\nquotas: {queues: {q: {slices: 8}}}\n"
    files = {"default": base, "others": others, "queues": f"kind: Queues\nqueues:\n  q:\n    {entry}\n"}
    assert expected in "\n".join(problems(**files))
    bound = {**files, "queues": files["queues"] + "    namespaces: [clearml]\n"}
    assert problems(**bound) == []


@pytest.mark.parametrize(
    "entry", ["limiter: hami-core", 'fractions: {"0.125": 1}', "quota: {slices: 4}", "policy: tight"]
)
def test_an_entry_for_all_namespaces_may_tighten(entry):
    tight = "kind: Policy\nname: tight\nmemory: {reserveMiB: 9}\nprivileged: any-container\n"
    assert problems(tight=tight, queues=f"kind: Queues\nqueues:\n  q:\n    {entry}\n") == []


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        ("hostPaths: [/dev]", "allow.hostPaths[0]: "),
        ("capabilities: [CAP_SYS_ADMIN]", "allow.capabilities[0]: "),
        ("resources: [example.com/nic]", '"example.com/nic" is not refused anyway'),
        ("resources: [nvidia.com/gpu]", '"nvidia.com/gpu" is a way to ask for GPUs'),
        ("resources: [nvidia.com/gpu-3]", '"nvidia.com/gpu-3" is a way to ask for GPUs'),
        ("resources: [nvidia.com/mig-1g.5gb]", '"nvidia.com/mig-1g.5gb" is a way to ask for GPUs'),
        ("mounts: true", "allow.mounts: "),
    ],
)
def test_what_no_policy_may_allow_is_a_mistake(allow, expected):
    (problem,) = problems(default=f"kind: Policy\nname: default\nallow:\n  {allow}\n")
    assert problem.startswith("default.yaml:4: ")
    assert expected in problem


def test_an_entry_may_allow_less_for_every_namespace():
    default = "kind: Policy\nname: default\nallow: {hostPaths: [/etc/containerd, /etc/kubernetes]}\n"
    less = "kind: Policy\nname: less\nallow: {hostPaths: [/etc/kubernetes]}\n"
    queues = "kind: Queues\nqueues: {q: {policy: less}}\n"
    assert problems(default=default, less=less, queues=queues) == []


def test_a_policy_of_another_mode_with_the_same_limiter_relaxes_nothing():
    pooled = "kind: Policy\nname: pooled\nresources: {mode: pooled}\n"
    assert problems(pooled=pooled, queues="kind: Queues\nqueues: {q: {policy: pooled}}\n") == []


def test_an_entry_must_not_relax_the_policy_of_any_namespace_either():
    tight = 'kind: Policy\nname: tight\nnamespaces: [n]\nfractions: {"0.125": 1}\n'
    assert problems(tight=tight, queues="kind: Queues\nqueues: {q: {policy: default}}\n") == [
        (
            'queues.yaml:2: queues.q.policy: relaxes policy tight (fraction "0.250") for'
            " every pod that wears this"
            " queue's label: name the namespaces in which it applies"
        )
    ]


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ("{a.b: {}, a_b: {}}", 'queues.a_b: becomes the label "a-b", like queue "a.b"'),
        ("{a: {id: x}, b: {id: x}}", 'queues.b.id: "x" is the id of queue "a" already'),
        ("{a: {policy: defualt}}", 'policy "defualt" is not defined (did you mean "default"?)'),
        ("{a: {limiter: nun}}", 'queues.a.limiter: "nun" is not defined'),
        ("{a: {namespaces: []}}", "queues.a.namespaces: should have at least 1 item"),
        ("{a: }", "queues.a: should be a valid dictionary"),
        (
            '{a: {templateOverrides: {labels: {clearml-injector/fraction: "0.5"}}}}',
            (
                '"0.5" is not allowed by policy default: use 0.125, 0.250, 0.375, 0.500, 0.625, 0.750, 0.875'
                ' (did you mean "0.500"?)'
            ),
        ),
    ],
)
def test_mistakes_of_queues_are_found(queues, expected):
    assert expected in "\n".join(problems(q=f"kind: Queues\nqueues: {queues}\n"))


def test_the_chart_agents_template_is_taken_as_it_is():
    text = """
kind: Queues
queues:
  default0500:
    templateOverrides:
      labels: {required-resources: "0.5", clearml-injector/fraction: "0.500"}
      resources: {limits: {nvidia.com/gpu: 1, clear.ml/fraction-1: "0.5"}}
      nodeSelector: {pool: gpu}
    queueSettings: {maxPods: 10, other: x}
"""
    assert problems(q=text) == []


def test_the_ledger_learns_which_names_to_count():
    pooled = "kind: Policy\nname: p\nresources: {mode: pooled, name: example.com/share}\n"
    resource_names = policy_set(p=pooled).resource_names
    assert resource_names.per_gpu_prefix == "nvidia.com/gpu-"
    assert resource_names.pooled == ("example.com/share", "nvidia.com/gpu", "nvidia.com/gpu.shared")


def test_place_and_one_model_are_the_policys_unless_the_queue_says_otherwise():
    team = f"{TEAM}place: spread\nsameModel: true\n"
    queues = "kind: Queues\nqueues: {a: {place: pack}, b: {sameModel: false}, c: {place: spread}}"
    policies = policy_set(team=team, queues=queues)
    asked = [("x", None), ("x", "c"), ("team-a", None), ("team-a", "a"), ("team-a", "b")]
    found = [policies.resolve(namespace, queue, None) for namespace, queue in asked]
    assert [(policy.place, policy.same_model) for policy in found] == [
        ("pack", False),
        ("spread", False),
        ("spread", True),
        ("pack", True),
        ("spread", False),
    ]


@pytest.mark.parametrize("text", ["place: spreads", "place: null", "sameModel: 1", 'sameModel: "true"'])
def test_another_word_for_place_or_one_model_is_an_error(text):
    assert text.partition(":")[0] in "".join(problems(team=f"{TEAM}{text}\n"))

"""Required node affinity of the pod's own, about the very label that binds it: a second review knows ours."""

import copy
from types import MappingProxyType

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import by_turns, examples
from tests.ledger.cluster import gpu_node
from tests.webhook.admission.test_affinity import REFUSING
from tests.webhook.support import pod, policies
from tests.webhook.support.gpu_pods import GPUS, MEMORY, pooled_node, webhook_of

MIN_MEMORY, MODEL = "clearml-injector/min-gpu-memory", "clearml-injector/gpu-model"
LABEL, PRODUCT = "nvidia.com/gpu.memory", "nvidia.com/gpu.product"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CARDS = {
    "Tesla-T4": 15360,
    "NVIDIA-A10": 23028,
    "NVIDIA-A10G": 23030,
    "NVIDIA-L4": 23034,
    "NVIDIA-A100-SXM4-40GB": 40960,
    "NVIDIA-A100-SXM4-80GB": 81920,
    "NVIDIA-H100-PCIe": 81559,
}
SIZES = sorted({*map(str, CARDS.values()), "23029", "1", "023028", "x"})
ZONE = {"key": "zone", "operator": "Exists"}
LEAST = {"1Gi": "1023", "23030Mi": "23029", "24Gi": "24575"}
SETS = {
    "per-gpu": policies("memory: {allowed: true}"),
    "pooled": policies("resources: {mode: pooled}\nmemory: {allowed: true}"),
    "reserve": policies("memory: {allowed: true, reserveMiB: 100}"),
    "assume": policies("memory: {allowed: true}\nassume: {gpusPerNode: 2, gpuMemoryMiB: 81920}"),
}
FRACTIONS = ("0.125", "0.250", "0.500", "0.875")

subsets = st.lists(st.sampled_from(SIZES), min_size=1, max_size=4, unique=True)
bounds = st.sampled_from(["0", "15360", "23027", "23028", "40959", "81920"])
models = st.lists(st.sampled_from(list(CARDS)), min_size=1, max_size=4, unique=True)


def expression(key, operators, values):
    parts = st.tuples(st.sampled_from(operators), values)
    return parts.map(lambda part: {"key": key, "operator": part[0], "values": list(part[1])})


own = st.one_of(
    expression(LABEL, ["In", "In", "In", "NotIn"], subsets),
    expression(LABEL, ["Gt", "Lt"], st.tuples(bounds)),
    expression(PRODUCT, ["In"], models),
    st.sampled_from([{"key": key, "operator": "Exists"} for key in (LABEL, PRODUCT)]),
)
own_terms = st.lists(own, min_size=1, max_size=3).map(lambda found: {"matchExpressions": found})
terms = st.lists(st.one_of(own_terms, st.just({})), min_size=1, max_size=3)
labels = st.one_of(
    st.sampled_from([{"clearml-injector/fraction": text} for text in FRACTIONS]),
    st.sampled_from([{MEMORY: text} for text in ("1Gi", "4Gi", "6Gi", "11518Mi", "20Gi")]),
)
kinds = st.fixed_dictionaries(
    {},
    optional={
        MIN_MEMORY: st.sampled_from(list(LEAST)),
        MODEL: st.sampled_from(["A10*", "A100", "*"]),
    },
)


def card(model, mode):
    made = pooled_node(model, mib=CARDS[model]) if mode == "pooled" else gpu_node(model, mib=CARDS[model])
    made.labels["nvidia.com/gpu.product"] = model
    return made


def asking(terms, label=MappingProxyType({"clearml-injector/fraction": "0.500"}), annotations=None):
    required = {REQUIRED: {"nodeSelectorTerms": copy.deepcopy(terms)}}
    found = pod(fraction=None, labels=label, affinity={"nodeAffinity": required})
    found["metadata"]["annotations"] = annotations or {}
    return found


def terms_of(found):
    return found["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


@settings(max_examples=examples(by_turns("webhook", usual=200, full=400)))
@given(
    terms=terms,
    label=labels,
    kinds=kinds,
    setting=st.sampled_from([("per-gpu", {}), ("per-gpu", {GPUS: "2"}), ("reserve", {}), ("pooled", {})]),
    models=st.lists(st.sampled_from(list(CARDS)), min_size=1, unique=True),
)
def test_whatever_terms_a_pod_brings_its_injection_is_known_again(terms, label, kinds, setting, models):
    policy, form = setting
    webhook = webhook_of(*(card(model, policy) for model in models), policy_set=SETS[policy])
    decided = webhook.decide(asking(terms, label, form | kinds))
    if not decided.allowed:
        return
    # The harness has reviewed it twice by now, and a term that a stranger adds gets what is only ours.
    changed = decided.stored
    terms_of(changed).append({"matchExpressions": [ZONE]})
    again = webhook.decide(changed, uid="again")
    if MODEL in kinds:
        # That term names no model, and only the ledger knows them: the pod is placed again where it can be.
        assert again.code == ("gpu-index-set" if policy != "pooled" else "injected")
        return
    ours = [
        {"key": LABEL, "operator": "In", "values": list(decided.outcome.injection.placement.memory_values)}
    ]
    if MIN_MEMORY in kinds:
        ours.append({"key": LABEL, "operator": "Gt", "values": [LEAST[kinds[MIN_MEMORY]]]})
    if policy == "pooled" and decided.outcome.injection.slices > 1:
        ours += REFUSING
    assert terms_of(again.stored) == [*terms_of(decided.stored), {"matchExpressions": [ZONE, *ours]}]


def test_where_nodes_may_be_assumed_and_are_known_a_strangers_term_is_bound_too():
    webhook = webhook_of(card("NVIDIA-A100-SXM4-80GB", "per-gpu"), policy_set=SETS["assume"])
    first = [{"matchExpressions": [{"key": PRODUCT, "operator": "Exists"}]}]
    stored = webhook.decide(asking(first)).stored
    terms_of(stored).append({"matchExpressions": [ZONE]})
    ours = {"key": LABEL, "operator": "In", "values": ["81920"]}
    assert terms_of(webhook.decide(stored, uid="again").stored)[1] == {"matchExpressions": [ZONE, ours]}


def test_an_assumed_place_stays_unbound_whatever_the_pods_author_demands_in_a_term():
    webhook = webhook_of(policy_set=SETS["assume"])
    own = [{"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["81920"]}]}]
    found = asking([*own, {"matchExpressions": [ZONE]}])
    stored = webhook.decide(found).stored
    assert terms_of(stored) == terms_of(found)
    assert webhook.decide(stored, uid="again").patch == []

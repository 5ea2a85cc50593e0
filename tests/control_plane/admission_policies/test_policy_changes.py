"""A change of policies: the lock has it at once, webhooks some time later, and meanwhile no pod is refused.

The webhook writes the number of the lock's tables behind the marker's digest; the chart keeps those before.
"""

import copy
from datetime import UTC, datetime, timedelta

import pytest

from policies.loading.sources import LOCK_FILE
from testbed.api import ApiError
from testbed.chart import ADMISSION, CHART, CONFIGURATION, RELEASE, Helm
from testbed.process import eventually
from testbed.product import INJECTED, decides, passes_by
from testbed.registration import asking_for_memory, labelled_pod, probe
from tests.control_plane.admission_policies.conftest import created, policy_files, sharing
from tests.control_plane.admission_policies.support import (
    OLD,
    POLICIES,
    VALUES,
    WHOLE,
    in_effect,
    is_allowed,
    large_pod,
    refused,
)

LOCK = "ValidatingAdmissionPolicy"
ASKS = {
    "lock-whole": "0.2",
    "lock-driver": "0.250",
    "lock-custom": "0.250",
    "lock-open": "0.250",
    "lock-pooled": "0.250",
    "lock-quarters": "0.250",
    "lock-mig": "0.375",
    "lock-either": "0.125",
}
"""Namespaces whose pods the change concerns, and what they ask for."""
KEPT = ("default", "both", "foreign", "apart", "image")
AFTER = {
    **VALUES,
    "agent": {"enabled": True, "offer": "device-plugin"},
    "policies": {
        **{name: POLICIES[name] for name in KEPT},
        "default": {"fractions": WHOLE | {"0.250": 2}},
        "whole": {"namespaces": ["lock-whole"], "fractions": {"0.250": 2, "0.375": 3}},
        "driver": {"namespaces": ["lock-driver"], "limiter": "hami-core"},
        "custom": {"namespaces": ["lock-custom"], "limiter": "other"},
        "fresh": {"namespaces": ["lock-open", "lock-pooled"]},
        "quarters": {"namespaces": ["lock-quarters"]},
    },
    "limiters": {"other": {"env": {"OTHER_MIB": "{memory_mib}"}}},
    "queues": {},
}
"""Every kind of change: fractions, limiter, variables, mode, slices; a policy goes and another comes."""
AGAIN = {
    **AFTER,
    "policies": {
        **AFTER["policies"],
        "default": {
            "fractions": WHOLE,
            "limits": {"from": "agent"},
            "memory": {"allowed": True, "decimal": True},
        },
        "driver": {"namespaces": ["lock-driver"], "limiter": "other"},
    },
}
"""A change more, which leaves the limits of the default policy to the nodes' agents."""
ASKED_AFTER = ASKS | {"lock-whole": "0.375", "lock-default": "0.125"}
ADVICE = "leave out what the injector writes, and if you did, tell your admin"


class Changing:
    """The release, whose policies change, and the webhook, which hears of it later."""

    def __init__(self, control_plane, product, values, folder):
        self.api = control_plane.api
        self.helm = Helm(control_plane, folder)
        self._product = product
        self._outside = {key: values[key] for key in ("webhook", "tls", "controller")}

    def apply(self, policies, *options):
        """Upgrade the release; the webhook hears nothing of it."""
        arguments = [
            "upgrade",
            RELEASE,
            str(CHART),
            self.helm.values({**policies, **self._outside}),
            *options,
        ]
        ended = self.helm.run(*arguments)
        assert ended.code == 0, ended.stderr

    def bring(self, policies):
        """Let the webhook have what the kubelet would bring it, and wait until it serves that."""
        directory = self._product.setup.policies
        fresh = policy_files(self.helm, policies)
        for file in directory.iterdir():
            if file.name != LOCK_FILE:
                file.unlink()
        for name in sorted(fresh, key=lambda name: name != LOCK_FILE):
            (directory / name).write_text(fresh[name])
        number = fresh[LOCK_FILE]
        eventually(lambda: self._serves(number), "it serves the change")

    def _serves(self, number):
        try:
            return self.number_of(self.injected("lock-default")) == number
        except ApiError:  # of files that are written one by one, the webhook may have read some
            return False

    def injected(self, namespace, fraction="0.125"):
        """A pod as the webhook makes it, to be created without it."""
        return created(self.api, labelled_pod("task", fraction), namespace)

    @staticmethod
    def number_of(pod):
        return pod["metadata"]["annotations"][INJECTED].rpartition(".")[2]

    def without_webhook(self):
        """Take the webhook's configuration away: what is created then only the lock sees."""
        self.api.delete(CONFIGURATION, RELEASE, api=ADMISSION)
        eventually(lambda: passes_by(probe(self.api, OLD)), "the webhook is out of effect")

    def variables(self):
        found = self.api.get(LOCK, f"{RELEASE}-injected", api=ADMISSION)["spec"]["variables"]
        return {variable["name"]: variable["expression"] for variable in found}

    def until(self, moment):
        """Let the tables before end at a moment."""
        found = self.api.get(LOCK, f"{RELEASE}-injected", api=ADMISSION)["spec"]["variables"]
        at = [variable["name"] for variable in found].index("until")
        change = {**found[at], "expression": f"'{moment:%Y-%m-%dT%H:%M:%SZ}'"}
        found[at] = change
        self.api.patch(LOCK, f"{RELEASE}-injected", {"spec": {"variables": found}}, api=ADMISSION)


def numbered(pod, number):
    """The pod with another number of tables in its marker."""
    changed = copy.deepcopy(pod)
    annotations = changed["metadata"]["annotations"]
    annotations[INJECTED] = f"{annotations[INJECTED].rpartition('.')[0]}.{number}"
    return changed


@pytest.fixture(scope="module")
def changing(lock, control_plane, product, values, tmp_path_factory):
    eventually(lambda: in_effect(control_plane.api), "webhook and lock are in effect")
    changing = Changing(control_plane, product, values, tmp_path_factory.mktemp("changing"))
    yield changing
    changing.apply(VALUES, "--force-conflicts")
    changing.bring(VALUES)
    eventually(lambda: in_effect(control_plane.api), "all is as before")


@pytest.fixture(scope="module")
def before(changing):
    """Pods of the policies before the change, as the webhook left them."""
    return {namespace: changing.injected(namespace, asked) for namespace, asked in ASKS.items()}


@pytest.fixture(scope="module")
def large(changing):
    """About the largest pod that the webhook admits, of the policies before."""
    return created(changing.api, large_pod("large"), "lock-default")


@pytest.fixture(scope="module")
def in_lock(changing, before, large):
    """The change is in the lock alone, which is certain when it judges by the new tables."""
    changing.apply(AFTER)
    changing.without_webhook()
    unknown = numbered(before["lock-driver"], "ffffffff")
    eventually(lambda: not is_allowed(changing.api, unknown, "lock-driver"), "the new tables are in effect")


def test_pods_of_the_policies_before_are_let_in_as_the_webhook_left_them(in_lock, changing, before):
    refusals = {
        namespace for namespace, pod in before.items() if not is_allowed(changing.api, pod, namespace)
    }
    assert refusals == set()


def test_no_other_number_is_judged_by_the_tables_before(in_lock, changing, before, large):
    number = changing.variables()["number"].strip("'")
    for other in ("ffffffff", number):
        numbers = {namespace: numbered(pod, other) for namespace, pod in before.items()}
        assert [name for name in ASKS if is_allowed(changing.api, numbers[name], name)] == []
    for pod in (large, numbered(large, number)):  # within what the API server computes
        changing.api.create(pod, "lock-default", dry_run=True)


def test_pods_of_the_policies_before_are_held_to_them(in_lock, changing, before):
    """A pod takes nothing of both: the number decides for all of it."""
    pod = copy.deepcopy(before["lock-driver"])
    [container] = pod["spec"]["containers"]
    kept = [one for one in container["env"] if not one["name"].startswith("NVIDIA_GPU_MEMORY")]
    mib = pod["metadata"]["annotations"]["clearml-injector/memory-mib"]
    container["env"] = [
        *kept,
        {"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "value": f"{mib}m"},
        {"name": "LD_PRELOAD", "value": "/usr/local/vgpu/libvgpu.so"},
    ]
    rule = "must hold the limiter's variables once, for the MiB in clearml-injector/memory-mib"
    with refused("injected", f"env of GPU containers: {rule}: {ADVICE}"):
        changing.api.create(pod, "lock-driver", dry_run=True)
    number = changing.variables()["number"].strip("'")
    changing.api.create(numbered(pod, number), "lock-driver", dry_run=True)


def test_an_upgrade_that_changes_nothing_keeps_the_tables_before_and_their_end(in_lock, changing):
    said = changing.variables()
    changing.apply(AFTER)
    assert changing.variables() == said
    ends = datetime.strptime(said["until"], "'%Y-%m-%dT%H:%M:%SZ'").replace(tzinfo=UTC)
    assert timedelta(minutes=30) < ends - datetime.now(UTC) <= timedelta(hours=1)
    eventually(lambda: decides(probe(changing.api, OLD)), "the webhook is in effect again")


@pytest.fixture(scope="module")
def after(in_lock, changing):
    """Pods of the policies after the change, as the webhook left them."""
    if not decides(probe(changing.api, OLD)):
        changing.apply(AFTER)
        eventually(lambda: decides(probe(changing.api, OLD)), "the webhook is in effect again")
    changing.bring(AFTER)
    return {namespace: changing.injected(namespace, asked) for namespace, asked in ASKED_AFTER.items()}


def test_webhooks_of_before_and_after_serve_at_the_same_time(changing, before, after):
    changing.without_webhook()
    allowed = [
        [is_allowed(changing.api, pods[namespace], namespace) for namespace in ASKS]
        for pods in (before, after)
    ]
    assert allowed == [[True] * len(ASKS)] * 2


def test_the_tables_before_end(changing, before, after):
    changing.until(datetime.now(UTC) - timedelta(seconds=1))
    eventually(
        lambda: not is_allowed(changing.api, before["lock-driver"], "lock-driver"), "the end is in effect"
    )
    assert [namespace for namespace in ASKS if is_allowed(changing.api, before[namespace], namespace)] == []
    assert is_allowed(changing.api, after["lock-driver"], "lock-driver")
    changing.apply(AFTER, "--force-conflicts")
    assert "numberBefore" not in changing.variables()


def test_of_two_changes_only_the_last_is_bridged(changing, before, after):
    changing.apply(AGAIN, "--force-conflicts")
    changing.without_webhook()
    unknown = numbered(after["lock-driver"], "ffffffff")
    eventually(lambda: not is_allowed(changing.api, unknown, "lock-driver"), "the next tables are in effect")
    assert [name for name in ASKED_AFTER if not is_allowed(changing.api, after[name], name)] == []
    assert [name for name in ASKS if is_allowed(changing.api, before[name], name)] == []
    assert not is_allowed(changing.api, numbered(after["lock-default"], "ffffffff"), "lock-default")


def test_memory_that_an_agent_limits_passes_with_its_slices_alone(changing, after):
    """As the webhook left the pods, which is gone since."""
    changing.apply(AGAIN, "--force-conflicts")
    eventually(lambda: decides(probe(changing.api, OLD)), "the webhook is in effect again")
    changing.bring(AGAIN)
    parts = sharing(asking_for_memory("6Gi"), "train=4Gi,eval=2Gi")
    asking = [asking_for_memory("4Gi"), asking_for_memory("4G"), parts]
    *_, decimal, parts = made = [created(changing.api, pod, "lock-default") for pod in asking]
    changing.without_webhook()
    for pod in made:
        assert "clearml-injector/memory-mib" not in pod["metadata"]["annotations"]
        changing.api.create(pod, "lock-default", dry_run=True)
    decimal["metadata"]["annotations"]["clearml-injector/memory-mib"] = "3814"
    rule = "clearml-injector/memory-mib: the node's agent decides the MiB under this policy"
    with refused("injected", f"{rule}: {ADVICE}", "-by-memory"):
        changing.api.create(decimal, "lock-default", dry_run=True)
    parts["metadata"]["annotations"]["clearml-injector/containers"] = "train=4Gi,eval=1Gi"
    assert not is_allowed(changing.api, parts, "lock-default")

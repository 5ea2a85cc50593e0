"""Every request that tests admit is reviewed again, and every file of the examples and fixtures is one."""

import pytest

from cli.explainer import Explainer
from cli.manifests import ManifestError, read_inventory, read_objects
from ledger.ledger import Ledger
from policies.loading.loader import load_policies
from tests.webhook.support import FIXTURES, reviewed_again

ROOT = FIXTURES.parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*/*.yaml"))
MANIFESTS = sorted([*(FIXTURES / "manifests").glob("*.yaml"), *(FIXTURES / "added").glob("*.yaml")])


@pytest.fixture
def reviewed(monkeypatch):
    """The pods that were reviewed again."""
    found, plain = [], reviewed_again.decide_again
    monkeypatch.setattr(reviewed_again, "decide_again", lambda *args: found.append(args[-1]) or plain(*args))
    return found


@pytest.fixture
def explainer(monkeypatch):
    """Make an `explain` whose admitted pods go through the reviews that a real API server adds."""

    def make(policy_set, ledger):
        made = Explainer(policy_set, ledger)
        plain = made._review

        def review(asked):
            found = plain(asked)
            if reviewed_again.is_injected_pod(found.outcome):
                reviewed_again.check_again(policy_set, ledger, asked, found.pod)
            return found

        monkeypatch.setattr(made, "_review", review)
        return made

    return make


def explained(file, explainer):
    folder = file.parent
    inventory = folder / "inventory.yaml"
    policy_set = load_policies(folder / "policies" if (folder / "policies").exists() else ROOT / "policies")
    ledger = Ledger()
    path = inventory if inventory.exists() else FIXTURES / "inventory.json"
    read_inventory(path, policy_set.resource_names).put_into(ledger)
    explains = explainer(policy_set, ledger)
    return [each for found in objects(file) for each in explains.explain(found)]


def objects(file):
    try:
        return [found for found in read_objects(file) if found["kind"] != "Node"]
    except ManifestError:
        return []


@pytest.mark.parametrize("file", [*EXAMPLES, *MANIFESTS], ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_pod_of_a_file_is_known_again(file, reviewed, explainer):
    injected = [each for each in explained(file, explainer) if each.outcome.reason.value == "injected"]
    assert len(reviewed) == 2 * len([each for each in injected if each.outcome.injection is not None])

"""Every pod of the examples and fixtures that gets a share is known again, and after a stranger's webhook."""

import pytest

from cli.explainer import Explainer, review_of
from cli.manifests import ManifestError, read_inventory, read_objects
from policies.loading.loader import load_policies
from tests.webhook.support import FIXTURES
from tests.webhook.support.reviewed_again import check_again, is_injected_pod

ROOT = FIXTURES.parent.parent
PLACES = (ROOT / "examples").glob("*"), [FIXTURES / "manifests", FIXTURES / "added"]
FILES = sorted(file for places in PLACES for place in places for file in place.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_pod_of_a_file_is_known_again(file):
    try:
        every = [found for found in read_objects(file) if found["kind"] != "Node"]
    except ManifestError:
        return
    own, inventory = file.parent / "policies", file.parent / "inventory.yaml"
    policy_set = load_policies(own if own.exists() else ROOT / "policies")
    inventory = inventory if inventory.exists() else FIXTURES / "inventory.json"
    ledger = read_inventory(inventory, policy_set.resource_names)
    explainer = Explainer(policy_set, ledger)
    for each in [each for found in every for each in explainer.explain(found)]:
        if is_injected_pod(each.outcome):
            check_again(policy_set, ledger, review_of(each.before), each.pod)

"""Files outside `modes/` that ask what a mode's shares take, or tell one kind of unit from another.

A mode of an existing kind changes none of them (test_new_mode.py); a new kind of mode, such as one that
counts something else than slices, may change all.
"""

import ast
import re

from tests.product import PACKAGES, ROOT

NAMES = {"INSTANCE_MODE", "instance_mode"}
"""The mode of instances."""
KINDS = ("modes.mig", "modes.instance", "modes.per_gpu", "modes.pool")
"""Modules that are about one kind of mode begin with one of these."""
UNITS = {"Gpu", "Profile", "Pool", "POOL", "profile_of_product", "profile_of_resource", "profile_of_number"}
"""What `modes/units.py` has for those who tell one kind of unit from another."""
LEFT_OUT = ("bench", "modes", "testbed", "tests")

KNOWN = {
    "policies, which decide whether pods get instances": {
        "agent/policy_compiler.py",
        "policies/loading/build.py",
        "policies/loading/checks.py",
        "policies/loading/clearml_chart.py",
        "policies/loading/queue_checks.py",
        "policies/loading/values.py",
        "policies/model/effective.py",
    },
    "pods that name an instance, or have one": {
        "webhook/admission/compute.py",
        "webhook/admission/hami_cards.py",
        "webhook/admission/instances.py",
        "webhook/admission/mutate.py",
        "webhook/admission/reinvocation.py",
    },
    "the ledger, which counts instances and pools": {
        "ledger/accounts.py",
        "ledger/free_nodes.py",
        "ledger/from_kubernetes.py",
        "ledger/gpu_memory.py",
        "ledger/instance_worth.py",
        "ledger/ledger.py",
        "ledger/node_capacity.py",
        "ledger/totals.py",
        "ledger/view.py",
        "ledger/why.py",
    },
    "placement on GPUs, instances and pools": {
        "ledger/placement/candidates.py",
        "ledger/placement/cards.py",
        "ledger/placement/choice.py",
        "ledger/placement/gpu_kinds.py",
        "ledger/placement/hosts.py",
        "ledger/placement/node_class.py",
        "ledger/placement/preference.py",
        "ledger/placement/waiting.py",
        "ledger/placement_request.py",
    },
    "pods and nodes with instances, as the controller watches them": {
        "controller/watch/mig_facts.py",
        "controller/watch/resources.py",
    },
    "the division of cards into instances": {
        "controller/geometry/cluster.py",
        "controller/geometry/division.py",
        "controller/geometry/mig_config.py",
        "controller/geometry/model.py",
        "controller/geometry/node_view.py",
    },
    "texts, pages and snapshots with instances, and values for nodes": {
        "cli/ledger_table.py",
        "cli/queue_report.py",
        "controller/publish/gpu_ledger.py",
        "controller/publish/node_problems.py",
        "doctor/limits.py",
        "web/panels.py",
        "web/rows.py",
        "webhook/placing/fallback.py",
    },
    "queues of one machine, which give out single GPUs": {
        "baremetal/machine.py",
        "cli/commands/run_queues.py",
    },
}
"""Files by why they need to know."""
ADVICE = (
    "ask the mode itself (modes/mode.py) what you need to know; only if it cannot say it, name the file here."
    " Remove a file here that no longer asks."
)


MAY_ASK = re.compile(r"from modes\.|\.takes\b|instance_mode", re.IGNORECASE)
"""What every module has that asks; the others are not parsed."""


def asks(tree):
    """Whether a module compares what a mode takes, or imports what is about one kind of mode or unit.

    What a mode answers itself, such as `needs_limiter`, is no question: another mode has another answer.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(KINDS):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "modes.units":
            if not UNITS.isdisjoint(each.name for each in node.names):
                return True
            continue
        if isinstance(node, ast.Compare) and getattr(node.left, "attr", "") == "takes":
            return True
        if getattr(node, "id", None) in NAMES or getattr(node, "attr", None) in NAMES:
            return True
    return False


def test_files_that_ask_what_kind_a_mode_is_are_named_here():
    files = [file for each in PACKAGES if each not in LEFT_OUT for file in (ROOT / each).rglob("*.py")]
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in files}
    found = {path for path, text in texts.items() if MAY_ASK.search(text) and asks(ast.parse(text))}
    known = set().union(*KNOWN.values())
    assert len(known) == sum(map(len, KNOWN.values()))
    assert (sorted(found - known), sorted(known - found)) == ([], []), ADVICE


def test_a_question_is_found_however_it_is_written():
    assert asks(ast.parse("def first(policy):\n    return policy.mode.takes is Profile"))
    assert asks(ast.parse("from modes.units import Profile"))
    assert asks(ast.parse("from modes.mig_profiles import CARDS"))
    assert asks(ast.parse("def first():\n    return INSTANCE_MODE"))
    assert not asks(ast.parse("from modes.mode import ModeName\nmode.slices(node)"))
    assert not asks(ast.parse("from modes.units import Unit\nmode.needs_limiter"))

"""What a ledger has in its books, in a form that two ledgers can be compared by."""

from copy import deepcopy
from typing import Any

from ledger.ledger import Ledger


def books(ledger: Ledger) -> dict[str, Any]:
    """A copy of everything but what was learnt of demand, and the order things came in."""
    ledger._node_index.flush()
    found = {
        "nodes": {name: _account(account) for name, account in ledger._node_index.accounts.items()},
        "backlog": (ledger._pending._slices, ledger._pending.claims),
        "usage": ledger._usage._cells,
        "kinds of GPU": {name: dict(found) for name, found in vars(ledger._kinds).items() if found},
        "reservations": dict(ledger._reservations._by_name),
        "owners": (ledger._owners._on_nodes, ledger._owners._awaited),
        "groups": sorted(_groups(ledger)),
        "classes and labels": (set(ledger._node_index.classes), set(ledger._node_index.labels.numbers)),
    }
    return deepcopy(found)


def _account(account: Any) -> tuple[Any, ...]:
    own = (account.fact, account.claims, account.taken, account.name, account.unbound)
    return (*own, account.cpu_free, account.memory_free, account.extended, account.left)


def _groups(ledger: Ledger) -> list[tuple[Any, ...]]:
    return [
        (node_class.order, state, account.cpu_free, account.name)
        for node_class in ledger._node_index.classes.values()
        for state, accounts in node_class.states()
        for account in accounts
    ]

"""Cards that DRA drivers offer as lines: the MiB that claims hold of each, and their pods."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from cli.ledger_table import MAX_POD_NAME, Row, table
from cli.printing import shortened
from ledger.card_view import CardShare, CardView, sums
from policies.model.problems import printable

HEADINGS = ("NODE", "CARD", "CLAIMED", "CLAIMS", "HELD BY")
WIDE_HEADINGS = ("NODE", "DRIVER", "MODEL", "CARD", "CLAIMED", "CLAIMS", "HELD BY")
BY_NODE = ("NODE", "CARDS", "FREE", "CLAIMS")


def card_lines(cards: Sequence[CardView], *, wide: bool = False) -> list[Text]:
    """Return headings and a line of any length for each card; nothing without cards."""
    rows = [_row(card, wide=wide) for card in cards]
    return table(WIDE_HEADINGS if wide else HEADINGS, rows)


def card_lines_by_node(cards: Sequence[CardView]) -> list[Text]:
    """Return headings and a line for each node; nothing without cards."""
    nodes: dict[str, list[CardView]] = {}
    for card in cards:
        nodes.setdefault(card.node, []).append(card)
    return table(BY_NODE, [_node_row(name, found) for name, found in nodes.items()])


def card_total(cards: Sequence[CardView]) -> Text:
    """Return the line with the sums of what is shown."""
    nodes = len({card.node for card in cards})
    counted = f"{_number(len(cards), 'card')} of {_number(nodes, 'node')}"
    return Text(f"total: {_free(cards)} of GPU memory free to claims, on {counted}", "bold")


def _row(card: CardView, *, wide: bool) -> Row:
    name = Text(printable(card.device))
    if card.taint:
        name.append(f" taint {printable(card.taint)}", "red")
    node = Text(printable(card.node) if wide else shortened(card.node, MAX_POD_NAME))
    held = ", ".join([_share(share, wide=wide) for share in card.shares])
    claimed = f"{card.claimed_mib} of {card.memory_mib} MiB"
    kind = [Text(printable(card.driver)), Text(printable(card.model or "?"))] if wide else []
    return [node, *kind, name, Text(claimed), Text(str(card.claims)), Text(held)]


def _node_row(name: str, cards: Sequence[CardView]) -> Row:
    claims = {(share.namespace, share.claim) for card in cards for share in card.shares}
    shown = Text(shortened(name, MAX_POD_NAME))
    return [shown, Text(str(len(cards))), Text(_free(cards)), Text(str(len(claims)))]


def _share(share: CardShare, *, wide: bool) -> str:
    name = share.pod or f"claim {share.claim}"
    short = printable(name) if wide else shortened(name, MAX_POD_NAME)
    return f"{printable(share.namespace)}/{short}: {share.memory_mib}"


def _free(cards: Sequence[CardView]) -> str:
    free, total = sums(cards)
    return f"{free} of {total} MiB"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"

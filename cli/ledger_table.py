"""The ledger as lines: one for each GPU, with a block for each slice, and one for each card; and by node."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from cli.printing import Cell, shortened, table
from ledger.card_view import CardShare, CardView
from ledger.view import GpuView, LedgerView, NodeView, PendingView
from modes.units import unit_name, unit_of
from policies.model.problems import printable

COLOURS = {"holder": "green", "promised": "cyan", "reservation": "yellow"}
HELD, FREE, OVER = "█", "░", "▓"
MAX_BLOCKS = 32
"""A pool with more slices is drawn to scale."""
MAX_POD_NAME = 28
HEADINGS = ("NODE", "GPU", "SLICES", "FREE", "HELD BY")
WIDE_HEADINGS = ("NODE", "PRODUCT", "MIB", "STATE", "GPU", "SLICES", "FREE", "HELD BY")
BY_NODE = ("NODE", "PRODUCT", "FREE", "PODS")
OF_CARDS = ("NODE", "CARD", "CLAIMED", "CLAIMS", "HELD BY")
WIDE_OF_CARDS = ("NODE", "DRIVER", "MODEL", "CARD", "CLAIMED", "CLAIMS", "HELD BY")
OF_PODS = ("POD", "NODE", "STATE", "SHARE")
CARDS_BY_NODE = ("NODE", "CARDS", "FREE", "CLAIMS")

Row = Sequence[Cell]


def lines(view: LedgerView, *, wide: bool = False, width: int | None = None) -> list[str]:
    """Return a line for each GPU and its pods, then for pods that wait, then for cards of DRA drivers.

    Args:
        view: the ledger.
        wide: whether with full names, products and memory.
        width: columns to which lines are cut; None for any number.
    """
    gpus = [row for node in view.nodes for row in _gpu_rows(node, wide=wide)]
    cards = [_card_row(card, wide=wide) for card in cards_of(view)]
    if view.pods is not None:
        rows = [(pod.name, pod.node or "-", pod.state, pod.share) for pod in view.pods]
        return _under(OF_PODS, rows, width) or ["no pod has a share"]
    return [
        *_under(WIDE_HEADINGS if wide else HEADINGS, gpus, width),
        *([] if gpus or cards else ["no GPUs to show"]),
        *map(_waiting, view.backlog),
        *_under(WIDE_OF_CARDS if wide else OF_CARDS, cards, width),
    ]


def lines_by_node(view: LedgerView, width: int | None = None) -> list[str]:
    """Return a line for each node instead of each GPU and card, for a ledger longer than the screen."""
    cards = defaultdict[str, list[CardView]](list)
    for card in cards_of(view):
        cards[card.node].append(card)
    nodes = [_node_row(node) for node in view.nodes if node.gpus]
    return [
        *_under(BY_NODE, nodes, width),
        *map(_waiting, view.backlog),
        *_under(CARDS_BY_NODE, [_cards_row(name, found) for name, found in cards.items()], width),
    ]


def totals(view: LedgerView) -> Iterator[str]:
    """Yield the sums of slices and instances that are shown, and those of cards."""
    nodes = [node for node in view.nodes if node.gpus]
    if nodes:
        yield f"total: {_free(nodes)}, on {_number(len(nodes), 'node')}"
    cards = cards_of(view)
    if cards:
        on = f"{_number(len(cards), 'card')} of {_number(len({card.node for card in cards}), 'node')}"
        yield f"total: {_free_mib(cards)} of GPU memory free to claims, on {on}"


def cards_of(view: LedgerView) -> list[CardView]:
    """Return the cards that DRA drivers offer."""
    return [card for node in view.nodes for card in node.cards]


def _under(headings: Row, rows: Sequence[Row], width: int | None) -> list[str]:
    return table([headings, *rows], width).splitlines() if rows else []


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _free(nodes: Iterable[NodeView]) -> str:
    """Return the sums of slices, and those of MIG instances, whose sizes differ."""
    sums: dict[str, Counter[str]] = {"slices": Counter(), "MIG instances": Counter()}
    for node in nodes:
        for gpu in node.gpus:
            what = "MIG instances" if node.profile_of(gpu) else "slices"
            sums[what].update(free=gpu.free, all=gpu.capacity)
    return " and ".join(f"{each['free']} of {each['all']} {what} free" for what, each in sums.items() if each)


def _free_mib(cards: Sequence[CardView]) -> str:
    return f"{sum(card.free_mib for card in cards)} of {sum(card.memory_mib for card in cards)} MiB"


def _node_row(node: NodeView) -> Row:
    pods = {(share.namespace, share.name) for gpu in node.gpus for share in gpu.shares}
    more = sum(gpu.unlisted.count for gpu in node.gpus if gpu.unlisted is not None)
    held = f"{len(pods)}{f' and {more} more' if more else ''}"
    return _short_node(node), node.product or "?", _free([node]), held


def _cards_row(name: str, cards: Sequence[CardView]) -> Row:
    claims = {(share.namespace, share.claim) for card in cards for share in card.shares}
    return shortened(name, MAX_POD_NAME), str(len(cards)), _free_mib(cards), str(len(claims))


def _gpu_rows(node: NodeView, *, wide: bool) -> Iterator[Row]:
    for gpu in node.gpus:
        index = gpu.name if wide else _index(node, gpu)
        yield (
            *(_wide_node(node, gpu) if wide else [_short_node(node)]),
            f"{index}{' cordoned' if gpu.cordoned else ''}",
            _slices(gpu),
            f"{gpu.free} of {gpu.capacity}",
            _holders(gpu, wide=wide),
        )


def _card_row(card: CardView, *, wide: bool) -> Row:
    taint = [(f" taint {card.taint}", "red")] if card.taint else []
    return (
        *([card.node, card.driver, card.model or "?"] if wide else [shortened(card.node, MAX_POD_NAME)]),
        [(card.device, ""), *taint],
        f"{card.claimed_mib} of {card.memory_mib} MiB",
        str(card.claims),
        ", ".join([_claim(share, wide=wide) for share in card.shares]),
    )


def _short_node(node: NodeView) -> Cell:
    unlabelled = node.gpu_mib is None and all(gpu.memory_mib is None for gpu in node.gpus)
    return [
        (shortened(node.name, MAX_POD_NAME), ""),
        ("" if node.usable else " not usable", "red"),
        (" no memory label" if unlabelled else "", "red"),
    ]


def _index(node: NodeView, gpu: GpuView) -> str:
    """Return the GPU's number, with the MiB of its card if the node's label has another value."""
    is_as_said = gpu.memory_mib in {None, node.gpu_mib}
    return gpu.name if is_as_said else f"{gpu.name} of {gpu.memory_mib} MiB"


def _wide_node(node: NodeView, gpu: GpuView) -> Row:
    mib = gpu.memory_mib if gpu.memory_mib is not None else node.gpu_mib
    memory: Cell = [("no label", "red")] if mib is None else str(mib)
    state: Cell = "usable" if node.usable else [("not usable", "red")]
    return node.name, gpu.model or node.product or "?", memory, state


def _slices(gpu: GpuView) -> Cell:
    total, left, drawn = max(1, gpu.capacity, gpu.used), gpu.capacity, []
    shares = [(share.slices, COLOURS[share.kind]) for share in gpu.shares]
    if (rest := gpu.unlisted) is not None:
        shares += [(rest.held, COLOURS["holder"]), (rest.used - rest.held, COLOURS["promised"])]
    for slices, colour in shares:
        within = max(0, min(slices, left))
        drawn.append((HELD * _scaled(within, total) + OVER * _scaled(slices - within, total), colour))
        left -= slices
    return [*drawn, (FREE * _scaled(gpu.unallocated, total), "bright_black")]


def _scaled(slices: int, total: int) -> int:
    if total <= MAX_BLOCKS:
        return slices
    return max(bool(slices), slices * MAX_BLOCKS // total)


def _holders(gpu: GpuView, *, wide: bool) -> str:
    held = [f"{share.namespace}/{_pod(share.name, wide=wide)}: {share.slices}" for share in gpu.shares]
    if gpu.unlisted is not None:
        held.append(f"and {gpu.unlisted.count} more: {gpu.unlisted.used}")
    return ", ".join(held)


def _claim(share: CardShare, *, wide: bool) -> str:
    name = _pod(share.pod or f"claim {share.claim}", wide=wide)
    return f"{share.namespace}/{name}: {share.memory_mib}"


def _pod(name: str, *, wide: bool) -> str:
    return name if wide else shortened(name, MAX_POD_NAME)


def _waiting(waiting: PendingView) -> str:
    units = ", ".join([unit_name(unit_of(index)) for index in waiting.indices])
    where = f"GPU {units}" if units else "any GPU"
    return printable(f"waits: {waiting.namespace}/{waiting.name} for {waiting.slices} of {where}")

"""The stream: everything, then what changes, within bounds."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from kube.names import GPU_PRODUCT_LABEL
from ledger.messages import DenialCount
from ledger.placement_request import Quota
from ledger.use import PodUses, ShareUse
from modes.facts import NodeFact, PodFact
from modes.units import POOL, profile_of_resource
from tests.ledger.cluster import eighths
from tests.web.asking import Source, get, is_whole, page_of, rows, shown, watching
from web.links import Link, read_link
from web.panels import MAX_DENIALS, MAX_UNLIMITED, MAX_WAITING
from web.source import AdmittedPod, NodeNotes, UnlimitedPrograms, WaitingReason


def test_all_nodes_come_first_and_then_only_those_that_change():
    source = Source("a", "b", "c")

    async def watch(request):
        first = await request.until(is_whole)
        source.mark("c")  # what it says is what it said
        source.set_pod("x", node="b")
        changed = await request.until(lambda events: rows(events[len(first) :]))
        return first, changed[len(first) :]

    first, then = watching(page_of(source), watch)
    assert list(rows(first)) == ["a", "b", "c"]
    assert list(rows(then)) == ["b"]
    [gpu, _] = rows(then)["b"]["gpus"]
    assert gpu["shares"] == [{"kind": "holder", "slices": 4, "namespace": "team", "pod": "x", "mib": 40000}]


def test_a_share_says_what_its_pod_uses_and_changes_of_that_are_sent():
    source = Source("a")
    source.set_pod("x")
    use = ShareUse(40000, 0, 300, 200, 0, "2026-01-01T00:00:00Z")
    uses = {("team", "x", 0): use}

    async def watch(request):
        first = await request.until(rows)
        uses["team", "x", 0] = replace(use, used_mib=100, busy_percent=None)
        source.mark("a")
        events = await request.until(lambda events: rows(events[len(first) :]))
        return rows(first), rows(events[len(first) :])

    page = page_of(source, use=lambda node: PodUses(uses if node == "a" else {}))
    first, then = watching(page, watch)
    [share] = first["a"]["gpus"][0]["shares"]
    told = {"used": 0, "peak": 300, "limit": 40000, "busy": 0, "since": "2026-01-01T00:00:00Z"}
    assert {key: share[key] for key in told} == told
    [share] = then["a"]["gpus"][0]["shares"]
    assert (share["used"], "busy" in share) == (100, False)


MIG = "NVIDIA-A100-SXM4-80GB"
ONE = profile_of_resource("nvidia.com/mig-1g.10gb")


@pytest.mark.parametrize(
    ("product", "offered", "held"),
    [
        (MIG, {"instances": ((ONE.number, 3),)}, {"takes": ((ONE, 1),)}),
        (f"{MIG}-MIG-1g.10gb", {"pooled": 3, "pooled_gpus": 3}, {"takes": ((POOL, 1),)}),
    ],
    ids=["strategy mixed", "strategy single"],
)
def test_mig_instances_are_shown_by_their_profile_whatever_the_strategy(product, offered, held):
    source = Source()
    source.ledger.set_node(NodeFact(name="m", labels={GPU_PRODUCT_LABEL: product}, **offered))
    source.ledger.set_pod(PodFact(namespace="team", name="x", node="m", **held))
    share = {"kind": "holder", "slices": 1, "namespace": "team", "pod": "x", "mib": 9728}
    [gpu] = shown(source)[0]["m"]["gpus"]
    assert gpu == {"capacity": 3, "profile": "1g.10gb", "shares": [share]}


def test_a_pod_that_waits_for_a_mig_instance_is_shown_with_its_profile():
    source = Source("a")
    source.set_pod("w", node=None, index=ONE, slices=1)
    [row] = shown(source)[1]["waiting"]
    assert (row["slices"], row["profile"]) == (1, "1g.10gb")


def test_a_node_that_is_gone_is_reported():
    source = Source("a", "b")

    async def watch(request):
        await request.until(is_whole)
        source.ledger.remove_node("a")
        source.mark("a")
        return await request.until(lambda events: rows(events)["a"].get("gone"))

    assert rows(watching(page_of(source), watch))["a"] == {"node": "a", "gone": True}


def test_of_many_denials_unlimited_programs_and_waiting_pods_the_first_are_sent():
    denials = [DenialCount("gpu-kind", f"n{n}", 1, f"line {n}") for n in range(MAX_DENIALS + 5)]
    many = [UnlimitedPrograms("a", "team", f"pod-{n:03}", "main", 0, 1) for n in range(MAX_UNLIMITED + 5)]
    source = Source("a")
    for number in range(MAX_WAITING + 5):
        source.set_pod(f"w{number}", node=None)
    found = shown(source, denials=lambda: denials, unlimited=lambda: (many, len(many)))[1]
    assert [each["namespace"] for each in found["denials"]] == [f"n{n}" for n in range(MAX_DENIALS)]
    unlimited = found["unlimited"]
    assert [each["pod"] for each in unlimited["containers"]] == [each.pod for each in many[:MAX_UNLIMITED]]
    assert unlimited["in_all"] == len(many)
    assert [pod["name"] for pod in found["waiting"]] == [f"w{number}" for number in range(MAX_WAITING)]
    assert found["waiting_in_all"] == MAX_WAITING + 5


def test_panels_say_what_is_free_who_waits_and_what_quotas_hold():
    source = Source("a")
    source.set_node("off", usable=False)
    source.set_node("half", cordoned=frozenset({1}))
    source.set_pod("x", slices=5)
    source.set_pod("w", node=None, slices=2, queues=("half",))

    async def why(pending):
        return WaitingReason("no room", f"{pending.name} waits for room", "2 of 5")

    quota = Quota("namespace", "team", 10, 4, memory_mib=163840)
    found = shown(source, why_waiting=why, quotas=lambda: [quota])[1]
    # Free: 3 and 8 on a, 8 on half, whose other GPU is cordoned.
    assert found["free"] == 19
    pod = {"namespace": "team", "name": "w", "kind": "pod", "slices": 2, "queue": "half"}
    assert found["waiting"] == [{**pod, "cause": "no room", "why": "w waits for room", "place": "2 of 5"}]
    assert [(use["unit"], use["used"], use["limit"]) for use in found["quotas"]] == [
        # Nothing tells yet how much of a card the pod gets that waits.
        ("MiB", 130000, 163840),
        ("slices", 7, 10),
        ("pods", 2, 4),
    ]


def test_hostile_names_neither_end_an_event_nor_become_markup():
    name = "</script>\n\ndata: {}\u2028\u202e<img src=x>"
    source = Source("a")
    source.set_pod(name)
    assert shown(source)[0]["a"]["gpus"][0]["shares"][0]["pod"] == name


def test_a_slow_reader_holds_no_bytes_and_gets_the_newest_of_each_node():
    source = Source(*[f"n{number:02}" for number in range(3)])

    async def watch(request):
        await request.until(is_whole)
        request.reads.clear()
        before = len(request.events())
        for number in range(1000):
            source.set_pod(f"p{number}", node="n00", slices=1)
            await asyncio.sleep(0)
        [changes, *_] = source.readers
        kept = len(changes._names)
        request.reads.set()
        shares = lambda events: rows(events)["n00"]["gpus"][0].get("shares", ())  # noqa: E731
        many = lambda events: sum(share["slices"] for share in shares(events)) == 1000  # noqa: E731
        return kept, (await request.until(many))[before:]

    kept, after = watching(page_of(source), watch)
    assert kept <= 3
    assert sum(name == "rows" for name, _ in after) <= 2


def test_what_a_node_lacks_is_in_its_row():
    source = Source("b")
    source.set_node("a", cards=((0, 40000), (1, 80000)))
    notes = {"a": NodeNotes(is_held=True, unhealthy=frozenset({1}))}
    found = shown(source, notes=lambda node: notes.get(node, NodeNotes()))[0]
    assert (found["a"]["held"], [gpu.get("unhealthy") for gpu in found["a"]["gpus"]]) == (True, [None, True])
    # A card of another size than its node says so.
    assert [gpu.get("mib") for gpu in found["a"]["gpus"]] == [40000, None]
    assert found["b"].keys() == {"node", "mib", "gpus"}
    assert not any("unhealthy" in gpu for gpu in found["b"]["gpus"])


def test_the_stream_says_which_cluster_it_is_and_where_links_lead_and_the_document_does_not():
    link = Link("Grafana", "https://grafana.example.com")
    page = page_of(Source("a"), cluster="berlin-1", links=(link,))
    events = watching(page, lambda request: request.until(is_whole))
    sent = {"text": "Grafana", "address": "https://grafana.example.com"}
    assert events[1] == ("about", {"cluster": "berlin-1", "links": [sent]})
    assert b"berlin" not in get(page).body


@pytest.mark.parametrize(
    "text",
    ["", "Grafana", "=https://x.example", "Grafana=javascript:alert(1)", "Grafana=//x.example", "a=https://"],
)
def test_a_link_leads_to_a_server(text):
    assert read_link("Grafana=https://x.example/d?a=b") == Link("Grafana", "https://x.example/d?a=b")
    with pytest.raises(ValueError, match="TEXT=URL"):
        read_link(text)


def test_reservations_are_shown_by_the_names_of_their_pods_and_told_apart_where_these_are_alike():
    source = Source("a", gpus=4)
    for name, slices in (("one-uid", 16), ("other-uid", 16), ("third-uid", 8), ("fourth-uid", 8)):
        source.ledger.place(eighths(slices, namespace="team", reservation=name), 0.0)
    created = "2026-01-01T00:00:00Z"
    nodes, panel = shown(source, admitted=lambda _: AdmittedPod("web-*", created))
    held, waiting = [share for gpu in nodes["a"]["gpus"] for share in gpu["shares"]], panel["waiting"]
    assert {(share["kind"], share["pod"], share["created"]) for share in held} == {
        ("reservation", "web-*", created)
    }
    # What one has of several GPUs is one.
    assert sorted(Counter(share["id"] for share in held).values()) == [2, 2]
    assert ([pod["name"] for pod in waiting], len({pod["id"] for pod in waiting})) == (["web-*"] * 2, 2)
    assert "uid" not in str([nodes, panel])
    nodes, _ = shown(source)
    assert not any("pod" in share for gpu in nodes["a"]["gpus"] for share in gpu["shares"])

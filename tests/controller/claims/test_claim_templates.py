"""Templates are made once, read back, bounded, collected, and never taken from somebody else."""

import asyncio
import copy
import json

import pytest

from cluster.kube_client import ApiError
from controller.claims.claim_templates import (
    GATE_IS_OFF,
    MAX_IN_NAMESPACE,
    UNUSED_IN_FULL_SECONDS,
    UNUSED_SECONDS,
    ClaimTemplates,
)
from controller.claims.template_objects import MAX_SPEC, SeenTemplate
from controller.claims.template_objects import templates as watched_templates
from kube.dra import DRIVER
from ledger.placement_request import Accounting, Demands, Placement, PlacementRequest, RequestedShare
from modes.claim import ClaimedShare, template_name
from modes.fraction import Fraction
from modes.registry import MODES
from tests.cluster.objects import listed

[CLAIMED] = [name for name, mode in MODES.items() if mode.is_claimed]
PLACED = Placement((), 0, (), cards=(81920,))


class Api:
    """An API server with templates: `stored` by path, `asked` in order, `keeps` what it keeps of a spec."""

    def __init__(self):
        self.stored, self.asked, self.pods = {}, [], []
        self.keeps = copy.deepcopy
        self.error = None
        self.deletes = None
        """Set when a deletion may take effect; None for at once."""

    async def request(self, method, path, *, body=None, query=None, **_):
        self.asked.append((method, path))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        if path.endswith("/pods"):
            assert query["fieldSelector"] == "spec.nodeName="
            return json.dumps(listed(*self.pods)).encode()
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.stored:
                raise ApiError(409, "exists")
            # As the API server does, with metadata of the claims.
            self.stored[path] = {**body, "spec": {"metadata": {}, **self.keeps(body["spec"])}}
        if method == "DELETE":
            if self.deletes is not None:
                await self.deletes.wait()
            return json.dumps(self.stored.pop(path)).encode()
        return json.dumps(self.stored[path]).encode()


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def templates(api, now):
    return ClaimTemplates(api, lambda: True, lambda: now[0])


def request(slices=4, namespace="a", mib=0):
    fraction = Fraction.of_memory(mib, 8) if mib else Fraction(slices, 8)
    share = RequestedShare(fraction, CLAIMED, writes_limits=False, driver=DRIVER)
    return PlacementRequest(share, Demands(), Accounting(namespace=namespace))


def ensure(templates, *requests):
    async def every():
        return await asyncio.gather(*[templates.ensure(each, PLACED) for each in requests])

    return asyncio.run(every())


async def turns():
    """Let every other task run until it waits for the test."""
    for _ in range(100):
        await asyncio.sleep(0)


def test_equal_shares_of_a_namespace_have_one_template(api, templates):
    assert ensure(templates, *[request()] * 5, request(namespace="b")) == [None] * 6
    assert ensure(templates, request()) == [None]
    assert [method for method, _ in api.asked] == ["POST", "POST"]


def test_what_another_leader_made_is_taken_if_it_is_equal(api, templates):
    ensure(templates, request())
    assert ensure(ClaimTemplates(api, lambda: True, lambda: 0.0), request()) == [None]
    assert [method for method, _ in api.asked] == ["POST", "POST", "GET"]


@pytest.mark.parametrize(
    "change",
    [lambda asked: asked.update(count=7), lambda asked: asked.pop("capacity")],
    ids=["other", "less"],
)
def test_somebody_elses_template_is_neither_taken_nor_deleted_as_if_a_gate_had_dropped_a_part(
    api, templates, change
):
    ensure(templates, request())
    [path] = api.stored
    change(api.stored[path]["spec"]["spec"]["devices"]["requests"][0]["exactly"])
    [said] = ensure(ClaimTemplates(api, lambda: True, lambda: 0.0), request())
    assert "exists with other content" in said
    templates.watched.set(SeenTemplate("a", path.rpartition("/")[2], {"spec": {}}))
    [said] = ensure(templates, request())
    assert "exists with other content" in said
    assert list(api.stored) == [path]


def test_a_gate_that_is_off_is_named_and_nothing_stays(api, templates):
    api.keeps = lambda spec: json.loads(json.dumps(spec).replace("capacity", "unknown"))
    assert ensure(templates, request()) == [GATE_IS_OFF]
    assert api.stored == {}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ApiError(404, ""), "serves no resource.k8s.io/v1"),
        (ApiError(403, ""), "may not make the claim's template"),
        (ApiError(500, ""), "rejected the claim's template (500)"),
        (TimeoutError(), "did not answer in time"),
    ],
)
def test_a_template_that_cannot_be_made_denies_the_pod_and_is_tried_again(api, templates, error, said):
    api.error = error
    assert said in ensure(templates, request())[0]
    api.error = None
    assert ensure(templates, request()) == [None]


def test_a_namespace_has_a_bounded_number(templates):
    many = [request(mib=1 + number) for number in range(MAX_IN_NAMESPACE)]
    made = ensure(templates, *many, request())
    assert made[:-1] == [None] * MAX_IN_NAMESPACE, "at the same moment too"
    [said] = ensure(templates, request())
    assert said == made[-1]
    assert f"asked for {MAX_IN_NAMESPACE} different shares: use one of these amounts" in said
    assert len(said) <= 200
    assert ensure(templates, many[0], request(namespace="b")) == [None, None]


def waits_for(path):
    claims = [{"name": "c", "resourceClaimTemplateName": path.rpartition("/")[2]}]
    return {"metadata": {"name": "p", "namespace": "a"}, "spec": {"resourceClaims": claims}}


def test_a_namespace_that_one_user_filled_serves_the_others_after_a_minute(api, templates, now):
    ensure(templates, *[request(mib=1 + number) for number in range(MAX_IN_NAMESPACE)])
    first, *_, last = api.stored
    now[0] = UNUSED_IN_FULL_SECONDS
    ensure(templates, request(mib=MAX_IN_NAMESPACE))
    api.pods = [waits_for(first)]
    asyncio.run(templates.collect())
    assert set(api.stored) == {first, last}
    assert ensure(templates, *[request(slices) for slices in (1, 2, 3)]) == [None] * 3


def test_only_what_nobody_used_for_an_hour_is_collected(api, templates, now):
    ensure(templates, request(), request(5), request(6))
    names = [path.rpartition("/")[2] for path in api.stored]
    now[0] = UNUSED_SECONDS
    ensure(templates, request(5))
    api.pods = [waits_for(names[2])]
    asyncio.run(templates.collect())
    assert [path.rpartition("/")[2] for path in api.stored] == names[1:]
    api.pods = []
    asyncio.run(templates.collect())
    assert [path.rpartition("/")[2] for path in api.stored] == names[1:2]


def test_what_a_pod_gets_meanwhile_and_all_of_a_standby_is_kept(api, now):
    leads = [True]
    templates = ClaimTemplates(api, lambda: leads[0], lambda: now[0])
    ensure(templates, request())
    now[0] = UNUSED_SECONDS

    async def meet():
        collecting = asyncio.ensure_future(templates.collect())
        await asyncio.sleep(0)
        assert await templates.ensure(request(), PLACED) is None
        await collecting

    asyncio.run(meet())
    now[0] += UNUSED_SECONDS
    leads[0] = False
    asyncio.run(templates.collect())
    assert len(api.stored) == 1


def test_one_that_is_deleted_in_use_is_made_again_by_the_leader_alone_and_only_if_it_was_ours(api, now):
    leads = [True]
    templates = ClaimTemplates(api, lambda: leads[0], lambda: now[0])
    ensure(templates, request())
    [path] = api.stored
    name = path.rpartition("/")[2]

    async def deleted():
        api.stored.pop(path, None)
        templates.watched.remove(("a", name))
        await turns()
        return list(api.stored)

    assert asyncio.run(deleted()) == [path]
    leads[0] = False
    assert asyncio.run(deleted()) == []
    leads[0] = True
    templates.watched.set(SeenTemplate("a", name, {"spec": {}}))
    assert asyncio.run(deleted()) == []
    assert ensure(templates, request()) == [None], "for the next pod"


def test_what_is_kept_of_templates_that_others_write_is_bounded():
    name = template_name(ClaimedShare(DRIVER, Fraction(4, 8)))
    large = {"metadata": {"name": name, "namespace": "a"}, "spec": {"x": "y" * MAX_SPEC}}
    other = {"metadata": {"name": "a1", "namespace": "a"}, "spec": {}}
    page = {"metadata": {"resourceVersion": "1"}, "items": [large, other]}
    [found], _ = watched_templates().reader.read_list(json.dumps(page).encode())
    assert (found.name, found.spec) == (name, None)


def test_a_request_without_a_driver_or_a_namespace_makes_nothing(api, templates):
    share = RequestedShare(Fraction(4, 8), CLAIMED)
    said = ensure(templates, PlacementRequest(share), request(namespace="../x"))
    assert said == ["the request names no driver or no namespace"] * 2
    assert api.asked == []


def test_a_pod_that_needs_a_template_while_it_is_deleted_gets_one_that_stays(api, templates, now):
    ensure(templates, request())
    [path] = api.stored
    now[0] = UNUSED_SECONDS

    async def meet():
        api.deletes = asyncio.Event()
        collecting = asyncio.ensure_future(templates.collect())
        await turns()
        assert ("DELETE", path) in api.asked
        ensuring = asyncio.ensure_future(templates.ensure(request(), PLACED))
        await turns()
        api.deletes.set()
        assert await ensuring is None
        await collecting

    asyncio.run(meet())
    assert list(api.stored) == [path]

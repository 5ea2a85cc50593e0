"""The search for dear reviews: that it reaches what it must, and finds a rule that is planted for it."""

import json
import random

import msgspec
import pytest

from kube.names import GPU_MODEL_ANNOTATION
from tests.long.campaign.search import words
from tests.long.campaign.search.genome import NUMBER, ODD_JSON, Base, Copy, Genome, Grow, Odd, Put
from tests.long.campaign.search.meter import PRODUCT, Cost, CpuMeter, LineCounts
from tests.long.campaign.search.mutation import Mutator, first
from tests.long.campaign.search.schema import paths
from tests.long.campaign.search.search import SIZES, Search
from tests.long.campaign.search.settings import Setting, bases, patched, settings
from tests.webhook.support import default_policies, pod, review_of
from tests.webhook.support.mutations import FIELDS
from webhook.admission_request import PodObject
from webhook.patch_cache.cache import PatchCache
from webhook.rules import Rules

BASE = Base("a pod", msgspec.json.encode(review_of(pod())))


class Planted:
    """The rules, and one that compares each toleration with each volume."""

    pod_type: type[PodObject] = PodObject
    compared = 0

    def begin(self, request, resolved):
        spec = getattr(request.pod(), "spec", None)
        if spec is not None:
            for _ in spec.tolerations or ():
                Planted.compared += len(spec.volumes or ())
        return Rules().begin(request, resolved)


class Comparisons:
    """Measures what the planted rule compares for each byte: no timing decides these tests."""

    def __init__(self, cpu):
        self._cpu = cpu

    def measure(self, name, setting, body, reviews=1):
        return self.explore(name, setting, body)

    def explore(self, name, setting, body):
        Planted.compared = 0
        cost = self._cpu.explore(name, setting, body)
        return Cost(Planted.compared / len(body), Planted.compared / len(body), cost.outcome)

    def hottest(self, name, setting, body):
        return "planted"


@pytest.fixture(scope="module")
def cpu():
    with CpuMeter() as meter:
        yield meter


def planted_search(cpu, seed=1, bound=3):
    known = {"planted": Setting(default_policies(), decider=Planted)}
    return Search(known, bases()[:3], Comparisons(cpu), bound, seed, (*PRODUCT, __file__))


@pytest.mark.timeout(1800)
def test_a_planted_rule_that_grows_with_the_square_of_a_body_is_found(cpu):
    """A list by itself cannot be compared more than once for every three of its bytes."""
    search = planted_search(cpu)
    while not search.findings and search.tally.steps < 40_000:
        search.step()
    (found,) = search.findings.values()
    review = json.loads(found.body)["request"]["object"]
    assert len(review["spec"]["tolerations"]) > 5
    assert len(review["spec"]["volumes"]) > 5
    assert len(found.body) <= SIZES[-1]
    # What the finding does not need is left out, so that a reader sees the cause: one edit at a time, so two
    # that need each other stay.
    assert len(found.scored.genome.edits) <= 5


def test_a_search_of_one_seed_is_the_same_twice_but_for_timings(cpu):
    # The first two fill the product's caches: what they hold runs no line again.
    searches = [planted_search(cpu, 7) for _ in range(4)]
    for search in searches:
        for _ in range(20):
            search.step()
    *_, first_search, second_search = searches
    assert first_search.tally == second_search.tally
    assert [each.genome for each in first_search.dearest(5)] == [
        each.genome for each in second_search.dearest(5)
    ]


def test_a_short_search_of_the_webhook_goes_on_under_every_policy(cpu):
    search = Search(settings(), bases(), cpu, bound=10_000, seed=1)
    for _ in range(12):
        search.step()
    assert search.tally.explored > 20
    assert sum(search.tally.measured.values()) > 40
    assert search.findings == {}
    assert all(each.cost.longest > 0 for each in search.dearest(3))


def test_every_field_that_a_rule_can_read_is_a_place_of_the_search():
    names = {path[-1] for path in paths()}
    assert {field.encode_name for field in FIELDS.values()} <= names
    assert ("request", "object", "spec", "initContainers", 0, "resources", "limits", "*") in paths()
    assert ("request", "oldObject", "spec", "containers", 0, "env") in paths()
    assert ("request", "userInfo", "groups") in paths()


@pytest.mark.parametrize(
    "word",
    [
        "clearml-injector/gpu-model",
        "gpu-fraction-num-devices",
        "nvidia.com/gpumem",
        "nvidia.com/gpu.product",
        "LD_PRELOAD",
    ],
)
def test_names_that_rules_read_are_words_of_the_search(word):
    known = words.values_of_keys([json.loads(BASE.body)])
    listed = [text for values in known.values() for text in values]
    assert word in {*words.words(), *known, *listed}


def test_bases_are_reviews_of_every_kind_and_of_what_was_patched():
    found = bases()
    assert len({each.name for each in found}) == len(found) > 60
    operations = {json.loads(each.body)["request"]["operation"] for each in found}
    assert {"CREATE", "UPDATE"} <= operations
    kinds = {json.loads(each.body)["request"]["resource"]["resource"] for each in found}
    assert {"pods", "jobs"} <= kinds
    again = patched(BASE, settings()["default"])
    assert again is not None
    assert (
        "clearml-injector/injected" in json.loads(again.body)["request"]["object"]["metadata"]["annotations"]
    )


@pytest.mark.parametrize("size", SIZES)
def test_a_grown_list_in_a_grown_list_fills_a_body_and_no_more(size):
    limits = ("request", "object", "spec", "initContainers", 0, "resources", "limits")
    edits = (
        Grow(limits, 30, "example.com/#", "1"),
        Grow(limits[:4], 10**6, "init-#", numbered="name"),
    )
    body = Genome(BASE, edits, size).body()
    assert body is not None
    assert 0.99 * size < len(body) <= size
    found = json.loads(body)["request"]["object"]["spec"]["initContainers"]
    assert len(found[0]["resources"]["limits"]) == len(found[-1]["resources"]["limits"]) == 31
    assert len({each["name"] for each in found}) == len(found)
    assert NUMBER in body.decode()


def test_a_grown_text_repeats_its_unit_and_numbers_it():
    path = ("request", "object", "metadata", "annotations", GPU_MODEL_ANNOTATION)
    body = Genome(BASE, (Grow(path, 3, "a#,"),), SIZES[0]).body()
    assert json.loads(body)["request"]["object"]["metadata"]["annotations"] == {
        GPU_MODEL_ANNOTATION: f"xa{NUMBER},a0,a1,a2,"
    }


@pytest.mark.parametrize("name", ODD_JSON)
def test_odd_json_is_as_long_as_was_wanted(name):
    edit = Odd(("request", "object", "spec", "more"), name, 10**7)
    body = Genome(BASE, (edit,), SIZES[1]).body()
    assert SIZES[1] - 100 < len(body) <= SIZES[1]


def test_what_is_put_twice_is_not_grown_twice():
    listed = {"a": ["b"]}
    edits = (
        Put(("request", "object", "spec", "more"), listed),
        Grow(("request", "object", "spec", "more", "a"), 5, "c#"),
        Copy(("request", "object", "spec"), ("request", "object", "spec", "inner")),
    )
    assert Genome(BASE, edits, SIZES[0]).body() is not None
    assert listed == {"a": ["b"]}


def test_any_genome_is_a_body_of_json_or_none_and_fits():
    mutator = Mutator(random.Random(1), [json.loads(BASE.body)])  # noqa: S311 repeatable, no secret
    genome, made = first(BASE, SIZES[0]), 0
    for _ in range(500):
        genome = mutator.child(genome)
        body = genome.body()
        if body is not None:
            made += 1
            assert len(body) <= SIZES[0]
        if len(genome.edits) > 6:
            genome = first(BASE, SIZES[0])
    assert made > 300


def test_lines_of_the_product_are_counted_and_no_others(cpu):
    with LineCounts() as lines:
        cpu.measure("default", settings()["default"], BASE.body)
    files = {code.co_filename for code, _ in lines.counts}
    assert any("webhook/admission" in each for each in files)
    assert not any("/tests/" in each for each in files)
    assert PatchCache.pod_type is not PodObject

"""The page in a real browser, over the ledger of a standalone webhook."""

import re
from contextlib import ExitStack

import pytest

from testbed.standalone_page import Standalone, node, pod
from tests.webhook.support import pod as labelled
from tests.webhook.support import review_of

LIVE = "#state:text-is('live')"
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"
RIGHT_TO_LEFT = "\u202egpj.\u202c\u05d0\u05d1"
LONG = "x" * 253
LINES = "\u2028data: {}\u2029\x85event: refused"
"""What ends a line to some, and to a stream of events does not."""
NODES = ("a100-0", "a100-1", "h100-0")


@pytest.fixture(scope="module")
def webhook(tmp_path_factory):
    pods = [
        pod("train", "a100-0", slices=5, queue="half"),
        pod("infer", "a100-0", slices=2, namespace="other", queue="quarter"),
        pod("busy", "a100-1", index=3, slices=8, namespace="other"),
        pod("waits", slices=8, index=7),
        pod(MARKUP, "h100-0", index=0),
        pod(RIGHT_TO_LEFT, "h100-0", index=1),
        pod(LONG, "h100-0", index=2, namespace="n" * 63),
        pod(LINES, "h100-0", index=3),
    ]
    cordoned = {"clearml-injector/cordon": "2"}
    objects = [node(NODES[0]), node(NODES[1], **cordoned), node(NODES[2])]
    with Standalone(tmp_path_factory.mktemp("page"), *objects, *pods) as running:
        yield running


@pytest.fixture
def page_of(tmp_path):
    """Starts a webhook of a test's own, over these objects."""
    with ExitStack() as stack:
        yield lambda *objects: stack.enter_context(Standalone(tmp_path, *objects))


def shown(tab):
    """Names of the nodes that are shown."""
    return tab.locator(".row:not([hidden]) .name").all_inner_texts()


def cell(tab, name, index):
    return tab.locator(".row", has=tab.get_by_text(name, exact=True)).locator(".gpu").nth(index)


def test_each_gpu_is_one_box_that_says_who_holds_it(webhook, open_page):
    tab = open_page(webhook.page).tab
    tab.wait_for_selector(LIVE)
    assert shown(tab) == list(NODES)
    assert tab.locator(".gpu").count() == 24
    label = cell(tab, "a100-0", 0).get_attribute("aria-label")
    assert label == (
        "a100-0 GPU 0; 1 of 8 slices free; other/infer 2 slices, 20 GiB, queue quarter; "
        "team/train 5 slices, 50 GiB, queue half"
    )
    assert cell(tab, "a100-0", 0).inner_text() == "7/8"
    assert "cordoned" in cell(tab, "a100-1", 2).get_attribute("aria-label")
    [model] = tab.locator(".model").all_inner_texts()
    assert model.startswith("NVIDIA-A100-SXM4-80GB80 GiB · 3 nodes · 31 of 192 slices allocated · ")
    assert model.endswith("fits now: 17 whole, 38 halves, 76 quarters, 153 eighths")
    cell(tab, "a100-0", 0).hover()
    assert "team/train" in tab.inner_text("#shares")


def test_mig_instances_are_called_instances(page_of, open_page):
    divided = node("mig-0", gpus=0, instances={"1g.10gb": 3, "3g.40gb": 1})
    pods = [
        pod("one", "mig-0", slices=1, profile="1g.10gb"),
        pod("all", "mig-0", slices=1, profile="3g.40gb"),
        pod("waits", slices=1, profile="3g.40gb"),
    ]
    running = page_of(divided, *pods)
    tab = open_page(running.page).tab
    tab.wait_for_selector(LIVE)
    labels = [each.get_attribute("aria-label") for each in tab.locator(".gpu").all()]
    assert labels == [
        "mig-0 1g.10gb; 2 of 3 instances free; team/one 1 instance, 9.5 GiB",
        "mig-0 3g.40gb; 0 of 1 instance free; team/all 1 instance, 39.3 GiB",
    ]
    tab.wait_for_selector("#waiting b")
    assert "1 instance" in tab.inner_text("#waiting")
    cell(tab, "mig-0", 0).hover()
    assert "2 of 3 instances free" in tab.inner_text("#which")
    assert "1 instance, 9.5 GiB" in tab.inner_text("#shares")


def test_a_denial_is_shown_as_its_author_read_it_and_stays_text(webhook, open_page):
    tab = open_page(webhook.page).tab
    tab.wait_for_selector("#denials-none:text-is('No pod.')")
    denied = webhook.review(review_of(labelled(fraction=MARKUP), namespace="team"))
    assert (denied["allowed"], MARKUP in denied["status"]["message"]) == (False, True)
    tab.wait_for_selector("#denials li:has-text('label-not-allowed: 1 in team')")
    assert denied["status"]["message"] in tab.inner_text("#denials")
    assert not tab.is_visible("#denials-none")
    assert tab.locator("img, main script").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_search_stands_in_the_address_and_hides_what_does_not_match(webhook, open_page):
    tab = open_page(webhook.page).tab
    tab.wait_for_selector(LIVE)
    tab.fill("[name=q]", "node:a100-*")
    assert shown(tab) == ["a100-0", "a100-1"]
    tab.fill("[name=q]", "node:a100-* queue:half")
    assert shown(tab) == ["a100-0"]
    tab.select_option("[name=colour]", "namespace")
    assert tab.url.endswith("?q=node%3Aa100-*+queue%3Ahalf&colour=namespace")
    again = open_page(tab.url).tab
    again.wait_for_selector(LIVE)
    assert shown(again) == ["a100-0"]
    assert again.input_value("[name=q]") == "node:a100-* queue:half"
    again.click("[type=reset]")
    again.wait_for_selector(".row:not([hidden]) >> nth=2")
    assert again.url == webhook.page
    again.fill("[name=q]", "namespace:other")
    assert shown(again) == ["a100-0", "a100-1"]
    again.fill("[name=q]", "nothing")
    assert again.is_visible("#empty")


def test_addresses_of_older_versions_still_work(webhook, open_page):
    tab = open_page(f"{webhook.page}?node=a100-*&queue=half").tab
    tab.wait_for_selector(LIVE)
    assert shown(tab) == ["a100-0"]


FOUND = {
    "train": ["a100-0"],
    "TRAIN half": ["a100-0"],
    "train quarter": [],
    "pod:train queue:quarter": [],
    'queue:"hal"': [],
    'queue:"half"': ["a100-0"],
    "state:cordoned": ["a100-1"],
    "state:whole": list(NODES),
    "free:4 pod:waits": [],
    "model:a100 h100": ["h100-0"],
    "node:*-0": ["a100-0", "h100-0"],
    "node:?100-?": list(NODES),
    "node:a*0*-1": ["a100-1"],
    "node:a100-0*": ["a100-0"],
    "node:*.*": [],
    "node:?": [],
}


def test_all_words_of_a_search_must_match_the_same_share_and_a_pattern_stands_for_names(webhook, open_page):
    tab = open_page(webhook.page).tab
    tab.wait_for_selector(LIVE)
    for text, names in FOUND.items():
        tab.fill("[name=q]", text)
        assert shown(tab) == names, text
    tab.fill("[name=q]", "namespace:other")
    assert (tab.locator("#waiting > li").count(), tab.inner_text("#waiting-count")) == (0, "0 of 1")


def test_the_legend_names_queues_and_searches_for_one(webhook, open_page):
    tab = open_page(webhook.page).tab
    tab.wait_for_selector(LIVE)
    assert re.search(r"half\s*5", tab.inner_text("#legend"))
    tab.click("#legend button:has-text('quarter')")
    assert tab.input_value("[name=q]") == 'queue:"quarter"'
    assert shown(tab) == ["a100-0"]


def test_the_keyboard_reaches_every_gpu(webhook, open_page):
    tab = open_page(webhook.page).tab
    tab.wait_for_selector(LIVE)
    tab.locator(".model button:visible").first.focus()  # what comes before the boxes
    focused = lambda: tab.evaluate("document.activeElement.getAttribute('aria-label')")  # noqa: E731
    tab.keyboard.press("Tab")
    assert focused().startswith("a100-0 GPU 0;")
    assert "team/train" in tab.inner_text("#shares")
    for key, name in (
        ("ArrowRight", "a100-0 GPU 1;"),
        ("ArrowDown", "a100-1 GPU 1;"),
        ("End", "a100-1 GPU 7;"),
        ("ArrowDown", "h100-0 GPU 7;"),
        ("ArrowDown", "h100-0 GPU 7;"),
        ("Home", "h100-0 GPU 0;"),
        ("ArrowUp", "a100-1 GPU 0;"),
    ):
        tab.keyboard.press(key)
        assert focused().startswith(name)
    tab.keyboard.press("Tab")
    assert focused() is None


def test_hostile_names_stay_text(webhook, open_page):
    tab = open_page(webhook.page).tab
    tab.wait_for_selector(LIVE)
    for index, hostile in enumerate((MARKUP, RIGHT_TO_LEFT, LONG, LINES)):
        found = cell(tab, "h100-0", index)
        assert f"/{hostile} 4 slices" in found.get_attribute("aria-label")
        found.hover()
        name = tab.locator("#shares bdi")
        assert name.text_content().endswith(f"/{hostile}")
        assert tab.locator("img, main script").count() == 0
        # Nothing of it leaves its place: neither another text's direction nor the width of the page.
        assert name.evaluate("(e) => getComputedStyle(e).unicodeBidi") == "isolate"
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_pattern_that_comes_with_a_link_never_holds_up_the_page(page_of, open_page):
    running = page_of(node("a" * 63, gpus=1))
    tab = open_page(f"{running.page}?node={'*a' * 30}*b").tab
    tab.wait_for_selector(LIVE)
    tab.wait_for_selector("#shown:text-is('0 of 1 nodes')")


def test_everything_comes_from_the_page_s_own_server(webhook, open_page):
    opened = open_page(webhook.page)
    opened.tab.wait_for_selector(LIVE)
    assert {request.startswith(webhook.page) for request in opened.requests} == {True}
    assert {"page.js", "nodes.js", "page.css", "stream"} <= {
        request.rpartition("/")[2] for request in opened.requests
    }


def test_a_stream_that_breaks_is_said_until_it_is_back(webhook, open_page):
    opened = open_page(webhook.page)
    tab = opened.tab
    tab.wait_for_selector(LIVE)
    webhook.stop()
    tab.wait_for_selector(".frozen #state:text-matches('frozen since .*')")
    assert shown(tab) == list(NODES)
    webhook.start_again()
    tab.wait_for_selector(f"body:not(.frozen) {LIVE}")
    assert shown(tab) == list(NODES)


def test_an_admitted_pod_has_its_name_although_it_never_appears(page_of, open_page):
    running = page_of(node("a100-0", gpus=1))
    tab = open_page(running.page).tab
    tab.wait_for_selector(LIVE)
    assert running.review(review_of(labelled(fraction="0.500"), namespace="team"))["allowed"]
    name = labelled()["metadata"].get("name", "")
    tab.wait_for_selector(f".gpu[aria-label*='team/{name}'][aria-label*='4 slices'][aria-label*='reserved']")


def test_replicas_in_creation_are_one_row_each(page_of, open_page):
    """Their pods have the same name, or none, as nobody has made them yet: on a node and waiting."""
    running = page_of(node("a100-0", gpus=1))
    for uid in range(5):
        review = review_of(labelled(metadata={"name": None, "generateName": "web-"}), namespace="team")
        review["request"]["uid"] = f"replica-{uid}"
        assert running.review(review)["allowed"]
    tab = open_page(f"{running.page}?view=pods").tab
    tab.wait_for_selector("#holders tr >> nth=1")
    names = tab.locator("#holders tr td:first-child bdi").all_inner_texts()
    assert names == ["web-*"] * 2
    tab.wait_for_selector("#waiting li li >> nth=2")
    assert tab.locator("#waiting li li").count() == 3


def test_what_a_reader_has_chosen_stays_while_pods_come(page_of, open_page):
    """The focus, the chosen GPU, and where it stands in the window."""
    running = page_of(*(node(f"a100-{number:02}", gpus=1) for number in range(40)))
    tab = open_page(f"{running.page}?colour=namespace", viewport={"width": 800, "height": 300}).tab
    tab.wait_for_selector(LIVE)
    last = cell(tab, "a100-39", 0)
    last.focus()
    assert tab.evaluate("scrollY") > 0
    place = last.bounding_box()
    for count in (1, 2):
        review = review_of(labelled(fraction="0.500"), namespace="team")
        review["request"]["uid"] = f"replica-{count}"
        assert running.review(review)["allowed"]
        tab.wait_for_selector(f"#used-more:has-text('{count * 4} of 320 slices')")
        assert last.evaluate("box => box === document.activeElement")
        assert "a100-39 GPU 0" in tab.inner_text("#which")
        assert last.bounding_box() == place

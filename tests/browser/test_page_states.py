"""The page in a real browser, in every state that it can show: testbed/page_example.py."""

import re
from contextlib import ExitStack
from functools import cache

import pytest

from testbed.page_example import shown

LIVE = "#state:text-is('live')"
SCREENS = (
    ("empty", 1440, "light"),
    ("large", 1440, "light"),
    ("large", 390, "dark"),
    ("cards", 1024, "dark"),
)


@pytest.fixture(scope="module")
def address_of():
    """Starts the page of a scene once, and returns its address."""
    with ExitStack() as stack:
        yield cache(lambda scene: stack.enter_context(shown(scene)))


def opened(open_page, address, width=1440, **options):
    tab = open_page(address, viewport={"width": width, "height": 900}, **options).tab
    tab.wait_for_selector(LIVE)
    tab.wait_for_selector("#used-more:has-text('of')")
    return tab


@pytest.mark.parametrize(("scene", "width", "scheme"), SCREENS)
def test_axe_finds_nothing_in_any_state(address_of, open_page, scene, width, scheme):
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - installed only for these tests

    tab = opened(open_page, address_of(scene), width, color_scheme=scheme)
    assert tab.is_visible("#empty") is (scene == "empty")
    if scene != "empty":
        tab.locator(".gpu").nth(7).focus()
    for view in ("gpus", "pods"):
        tab.click(f"[data-view={view}]")
        tab.locator(".panels > details").evaluate_all("(all) => all.forEach((each) => { each.open = true; })")
        found = Axe().run(tab).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_figures_come_first_and_say_what_is_used_free_waiting_denied_and_broken(address_of, open_page):
    tab = opened(open_page, address_of("large"))
    tab.wait_for_selector("#out-more:has-text('without limit')")
    names = tab.locator("#figures span").all_inner_texts()
    assert names == ["allocated", "whole GPUs free", "waiting", "denied", "needs attention"]
    assert tab.inner_text("#waits") == "14"
    assert tab.inner_text("#denied") == "6"
    broken = tab.inner_text("#out-more")
    assert broken == "1 unhealthy, 2 cordoned, 1 node held, 1 node off, 1 without limit"
    tab.click("[data-goes=out]")
    assert tab.locator(".row:not([hidden]) .name").all_inner_texts() == [
        "a100-03",
        "a100-07",
        "h100-05",
        "l40s-02",
    ]
    tab.click("[data-goes=whole]")
    free = tab.locator(".row:not([hidden]) .gpu:not(.dim)").all_inner_texts()
    assert (set(free), f"{len(free)}") == ({"0/8"}, tab.inner_text("#whole"))


def test_states_models_and_the_cluster_are_told_by_text_and_not_only_by_colour(address_of, open_page):
    tab = opened(open_page, address_of("large"))
    label = lambda text: tab.locator(f".gpu[aria-label^='{text};']").get_attribute("aria-label")  # noqa: E731
    assert "; unhealthy" in label("h100-05 GPU 6")
    assert tab.locator(".gpu[aria-label^='h100-05 GPU 6;']").inner_text() == "×"  # noqa: RUF001
    assert "; cordoned" in label("a100-03 GPU 2")
    assert "; node is held: its agent does not serve" in label("a100-07 GPU 0")
    assert "; node takes no pods: cordoned or not ready" in label("l40s-02 GPU 0")
    states = tab.locator(".name[data-state]").evaluate_all(
        "(all) => all.map((e) => [e.textContent, e.dataset.state])"
    )
    assert states == [["a100-07", "held"], ["l40s-02", "off"]]

    models = tab.locator(".model b").all_inner_texts()
    assert models == ["NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"]
    fits = [int(text.split("fits now: ")[1].split()[0]) for text in tab.locator(".model").all_inner_texts()]
    assert f"{sum(fits)}" == tab.inner_text("#whole")
    assert tab.title() == "berlin-1: GPU fractions"
    links = tab.locator("#links a").evaluate_all("(all) => all.map((a) => [a.textContent, a.href, a.rel])")
    assert links == [
        ["Grafana", "https://grafana.example.com/d/gpus", "noreferrer"],
        ["Runbook", "https://runbook.example.com/", "noreferrer"],
    ]


def test_equal_causes_are_one_group_and_the_paragraph_comes_on_demand(address_of, open_page):
    tab = opened(open_page, address_of("large"))
    tab.wait_for_selector("#waiting > li")
    causes = tab.locator("#waiting > li > b").all_inner_texts()
    assert causes == [
        "needs 8 slices of a GPU on a node with GPUs of 81920 MiB (12)",
        "the quota is used up (2)",
    ]
    paragraph = tab.locator("#waiting p").first
    assert not paragraph.is_visible()
    tab.click("#waiting summary >> nth=0")
    assert paragraph.inner_text().startswith("Pod vision/clearml-id-000000 requested")
    tab.click("#waiting > li:first-child > button")
    assert tab.locator("#waiting > li:first-child summary").count() == 12
    assert paragraph.is_visible()


def test_the_pods_table_is_sorted_by_any_column_from_the_address_too(address_of, open_page):
    tab = opened(open_page, f"{address_of('large')}?view=pods&q=node:a100-00")
    column = lambda number: tab.locator(f"#holders tr td:nth-child({number})").all_inner_texts()  # noqa: E731
    tab.wait_for_selector("#holders tr")
    shares = [re.fullmatch(r"(\d) slices? · [\d.]+ GiB", text) for text in column(4)]
    slices = [int(share[1]) for share in shares]
    assert slices == sorted(slices, reverse=True)
    for name, number in (("Pod", 1), ("Namespace", 2)):
        tab.click(f"#headings button:has-text('{name}')")
        assert column(number) == sorted(column(number))
        assert tab.locator(f"#headings th:nth-child({number})").get_attribute("aria-sort") == "ascending"
        tab.click(f"#headings button:has-text('{name}')")
        assert column(number) == sorted(column(number), reverse=True)
    assert "sort=-namespace" in tab.url
    assert any(text.startswith("uses ") for text in (each.strip() for each in column(5)))
    assert tab.inner_text("#shown") == f"{len(slices)} pods"


def test_of_many_pods_the_first_are_shown_until_more_are_asked_for(address_of, open_page):
    tab = opened(open_page, f"{address_of('large')}?view=pods")
    tab.wait_for_selector("#holders tr >> nth=199")
    assert tab.locator("#holders tr").count() == 200
    tab.click("#more")
    assert tab.locator("#holders tr").count() == 400


def test_on_a_phone_the_details_come_when_a_box_is_chosen_and_go_again(address_of, open_page):
    tab = opened(open_page, address_of("small"), 390)
    assert not tab.is_visible("#details")
    tab.locator(".gpu").first.click()
    assert tab.is_visible("#details")
    assert tab.inner_text("#which").startswith("a100-00 GPU 0:")
    tab.keyboard.press("Escape")
    assert not tab.is_visible("#details")


def test_each_card_of_a_driver_is_one_box_with_the_memory_that_claims_hold(address_of, open_page):
    tab = opened(open_page, address_of("cards"))
    first = tab.locator(".row", has=tab.get_by_text("dra-00", exact=True)).locator(".gpu")
    assert first.all_inner_texts() == ["45/80", "80/80", "0/80", "×"]  # noqa: RUF001 - the page's cross
    labels = [each.get_attribute("aria-label") for each in first.all()]
    assert re.sub(r", \d+ min", "", labels[0]) == (
        "dra-00 gpu-0; 34.8 GiB of 79.6 GiB free; vision/train 39.8 GiB; speech/notebook 5 GiB"
    )
    assert labels[3] == (
        "dra-00 gpu-3; 0 MiB of 79.6 GiB free; unhealthy: taint gpu.clearml-injector.io/xid=79"
    )
    assert tab.locator(".model").all_inner_texts() == [
        (
            "NVIDIA-H100-80GB-HBM379.6 GiB · 2 nodes · 248.9 of 637.2 GiB allocated"
            " · fits now: 2 whole, 4 halves, 10 quarters, 22 eighths"
        )
    ]
    assert tab.inner_text("#used") == "39 %"
    assert tab.inner_text("#used-more") == "248.9 GiB of 637.2 GiB claimed"
    assert (tab.inner_text("#whole"), tab.inner_text("#whole-more")) == ("2", "of 8; 228.9 GiB free")
    assert tab.inner_text("#out-more") == "2 unhealthy"
    assert tab.inner_text("#waits") == "1"
    assert tab.inner_text("#waiting > li > b") == "waits for the scheduler"
    assert tab.inner_text("#waiting li li").strip() == "vision/eval"
    tab.click("[data-goes=whole]")
    assert tab.locator(".row:not([hidden]) .gpu:not(.dim)").count() == 2
    first.nth(0).focus()
    assert "vision/train" in tab.inner_text("#shares")


def test_pods_with_claims_are_sorted_among_those_with_slices(address_of, open_page):
    tab = opened(open_page, address_of("both"))
    assert re.fullmatch(r"\d+ of 192 slices; 124.5 GiB of 318.6 GiB claimed", tab.inner_text("#used-more"))
    assert re.fullmatch(r"of 28; \d+ slices and 114.5 GiB free", tab.inner_text("#whole-more"))
    tab.fill("[name=q]", "node:dra-00")
    tab.click("[data-view=pods]")
    tab.wait_for_selector("#shown:has-text('3 pods')")
    cells = [line.locator("td").all_inner_texts() for line in tab.locator("#holders tr").all()]
    assert [(each[0], each[1], each[3], each[6]) for each in cells] == [
        ("all", "vision", "79.6 GiB", "dra-00 gpu-1: 79.6 GiB of 79.6 GiB"),
        ("train", "vision", "39.8 GiB", "dra-00 gpu-0: 39.8 GiB of 79.6 GiB"),
        ("notebook", "speech", "5 GiB", "dra-00 gpu-0: 5 GiB of 79.6 GiB"),
    ]

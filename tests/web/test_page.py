"""The page's HTTP surface: its parts, and what its policy forbids."""

import re

import pytest

from tests.web.asking import Source, get, page_of
from web.page import FILES, HEADERS


@pytest.fixture
def page():
    return page_of(Source("a"))


MODULES = sorted(file.name for file in FILES.glob("*.js"))


@pytest.mark.parametrize("path", ["/", "/page.css", "/icon.svg", *[f"/{name}" for name in MODULES]])
def test_every_part_is_ours_and_carries_a_policy_that_lets_nothing_else_in(page, path):
    answer = get(page, path)
    assert answer.status == 200
    assert HEADERS.items() <= answer.headers.items()
    # Namespaces of XML are no addresses to load from.
    text = answer.body.decode().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://", text)


def test_the_document_has_no_script_or_style_of_its_own(page):
    text = get(page).body.decode()
    assert re.findall(r"<script[^>]*>", text) == ['<script type="module" src="page.js">']
    assert not re.search(r"<style|\sstyle=|\son\w+=", text)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_never_sets_markup_and_is_short(module):
    text = (FILES / module).read_text()
    assert text.count("\n") < 400
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text
    )


def test_the_document_holds_nothing_of_the_cluster():
    page = page_of(Source("secret-node"))
    for path in ("/", "/page.js"):
        answer = get(page, path)
        assert answer.status == 200
        assert b"secret-node" not in answer.body


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("localhost:9081", "127.0.0.1:1", "[::1]:9081", "LOCALHOST")),
        *((host, 421) for host in ("evil.example:9081", "localhost.evil.example", "", "[", "10.0.0.1:9081")),
    ],
)
def test_a_page_answers_to_names_of_the_machine_and_to_none_that_others_can_make_lead_here(
    page, host, status
):
    assert get(page, host=host).status == status


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"path": "/stream", "sec_fetch_site": "cross-site"}, 403),
        ({"path": "/stream", "sec_fetch_site": "same-site"}, 403),
        ({"path": "/nothing"}, 404),
        ({"path": "/../page.html"}, 404),
        ({"path": "/page.html"}, 404),
        ({"method": "POST"}, 405),
        ({"path": "/stream", "method": "DELETE"}, 405),
        ({"path": "/stream", "method": "HEAD"}, 405),
    ],
)
def test_what_is_no_request_of_the_page_is_refused(page, more, status):
    assert get(page, **more).status == status


def test_a_link_on_another_site_leads_to_the_page(page):
    assert get(page, sec_fetch_site="cross-site", sec_fetch_mode="navigate").status == 200


def test_nothing_is_shown_until_the_ledger_is_whole():
    source = Source("a")
    source.missing = "pods not listed yet"
    answer = get(page_of(source), "/stream")
    assert (answer.status, answer.body) == (503, b"pods not listed yet\n")

"""Who may see an exposed page: what the API server is asked, and what is kept of its answers."""

import asyncio

import pytest

from controller.publish import page_authorization
from controller.publish.page_authorization import MAX_ASKED_AT_ONCE, Sees, TokenAuthorizer
from kube.names import PAGE_AUDIENCE
from tests.cluster.fake_api import FakeApi, forever, refusal, reply, talking_to
from tests.controller.watch.test_ledger_store import Clock
from web.source import PageRefusedError, Viewer

ANN = {"username": "ann", "groups": ["devs"], "uid": "7"}
KNOWN = reply({"status": {"authenticated": True, "audiences": [PAGE_AUDIENCE], "user": ANN}})
UNKNOWN = reply({"status": {"authenticated": False}})
OF_THE_API_SERVER = reply({"status": {"authenticated": True, "audiences": ["https://api"], "user": ANN}})
OF_NO_AUDIENCE = reply({"status": {"authenticated": True, "user": ANN}})
YES, NO = reply({"status": {"allowed": True}}), reply({"status": {"allowed": False}})


def admitted(script, *asked, clock=None):
    """What comes of some requests for (token, namespace), one after the other, and what was asked."""

    async def main():
        fake = FakeApi(*script)
        async with talking_to(fake) as api:
            authorizer, found = TokenAuthorizer(api, clock or Clock()), []
            for token, namespace in asked:
                try:
                    found.append(await authorizer.authorize(token, namespace))
                except PageRefusedError as error:
                    found.append((error.status, str(error)))
            return found, fake.asked

    return asyncio.run(main())


def test_who_may_list_all_ledgers_sees_all():
    [viewer], asked = admitted([KNOWN, YES], ("t", "team"))
    assert viewer == Viewer()
    [(method, path, _, review), (_, access, _, asking)] = asked
    assert (method, path, access) == (
        "POST",
        page_authorization.TOKEN_REVIEWS,
        page_authorization.ACCESS_REVIEWS,
    )
    assert review["spec"] == {"token": "t", "audiences": ["fraction-injector-page"]}
    assert asking["spec"] == {
        "user": "ann",
        "uid": "7",
        "groups": ["devs"],
        "extra": {},
        "resourceAttributes": {"verb": "list", "group": "clearml-injector.io", "resource": "gpuledgers"},
    }


def test_who_may_in_one_namespace_sees_that_alone_and_only_if_he_asks_for_it():
    found, asked = admitted([KNOWN, NO, YES, KNOWN, NO], ("t", "team"), ("t", ""))
    assert found[0] == Viewer("team")
    assert found[1][0] == 403
    assert asked[2][3]["spec"]["resourceAttributes"]["namespace"] == "team"


@pytest.mark.parametrize(
    ("script", "token", "status", "says"),
    [
        ([], "", 401, "send a bearer token"),
        ([], "", 401, "kubectl create token SERVICEACCOUNT --audience=fraction-injector-page"),
        ([UNKNOWN, UNKNOWN], "t", 401, "does not know this token"),
        ([KNOWN, NO, NO], "t", 403, 'may not list gpuledgers.clearml-injector.io in namespace "team"'),
        ([refusal(500, "broken")], "t", 503, "cannot check the token now"),
        ([KNOWN, refusal(403, "no")], "t", 503, "cannot check the token now"),
        ([reply({"status": 7})], "t", 503, "cannot check the token now"),
    ],
)
def test_a_user_without_the_right_learns_what_to_do(script, token, status, says):
    [(found, text)], asked = admitted(script, (token, "team"))
    assert (found, says in text, len(asked)) == (status, True, len(script))


def test_a_token_for_the_api_server_itself_is_taken_too():
    [viewer], asked = admitted([UNKNOWN, OF_THE_API_SERVER, YES], ("t", ""))
    assert viewer == Viewer()
    assert [review["spec"] for *_, review in asked[:2]] == [
        {"token": "t", "audiences": ["fraction-injector-page"]},
        {"token": "t"},
    ]


@pytest.mark.parametrize("unaware", [OF_THE_API_SERVER, OF_NO_AUDIENCE])
def test_an_answer_that_does_not_name_the_pages_audience_says_nothing_of_it(unaware):
    [(status, text)], asked = admitted([unaware, UNKNOWN], ("t", ""))
    assert (status, "does not know this token" in text, len(asked)) == (401, True, 2)


def test_answers_are_kept_for_a_while_and_failures_are_not():
    clock = Clock()
    found, asked = admitted([refusal(500, "x"), KNOWN, YES], ("t", ""), ("t", ""), ("t", ""), clock=clock)
    assert (found[0][0], found[1:], len(asked)) == (503, [Viewer()] * 2, 3)

    async def main():
        fake = FakeApi(KNOWN, YES, UNKNOWN, UNKNOWN)
        async with talking_to(fake) as api:
            authorizer = TokenAuthorizer(api, clock)
            await authorizer.authorize("t", "")
            clock.now += page_authorization.KEPT_SECONDS
            with pytest.raises(PageRefusedError, match="does not know this token"):
                await authorizer.authorize("t", "")

    asyncio.run(main())


@pytest.fixture
def few_kept(monkeypatch):
    monkeypatch.setattr(page_authorization, "MAX_KEPT", 20)
    return 20


def test_a_flood_of_tokens_fills_nothing(few_kept):
    async def main():
        count = few_kept + 3
        async with talking_to(FakeApi(*[UNKNOWN] * 2 * count)) as api:
            authorizer = TokenAuthorizer(api, Clock())
            for number in range(count):
                with pytest.raises(PageRefusedError):
                    await authorizer.authorize(f"{number}" * 1000, "")
            return authorizer._kept[Sees.NOTHING]

    kept = asyncio.run(main())
    assert len(kept) == few_kept
    assert all(len(digest) == 32 for digest, _ in kept)


def test_only_so_many_are_asked_about_at_a_time():
    async def main():
        fake = FakeApi(*[forever] * MAX_ASKED_AT_ONCE)
        async with talking_to(fake) as api:
            authorizer = TokenAuthorizer(api, Clock())
            tasks = [asyncio.create_task(authorizer.authorize(f"t{n}", "")) for n in range(MAX_ASKED_AT_ONCE)]
            await fake.until_asked(MAX_ASKED_AT_ONCE)
            with pytest.raises(PageRefusedError, match="too many requests"):
                await authorizer.authorize("one more", "")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_a_flood_of_tokens_shuts_out_nobody_whose_token_was_good(few_kept):
    async def main():
        flood, clock = few_kept + 3, Clock()
        script = [KNOWN, YES, *[UNKNOWN] * 2 * flood, *[forever] * MAX_ASKED_AT_ONCE, KNOWN, YES]
        fake = FakeApi(*script)
        async with talking_to(fake) as api:
            authorizer = TokenAuthorizer(api, clock)
            await authorizer.authorize("good", "")
            for number in range(flood):
                with pytest.raises(PageRefusedError, match="does not know"):
                    await authorizer.authorize(f"bad-{number}", "")
            assert await authorizer.authorize("good", "") == Viewer()
            assert len(fake.asked) == 2 + 2 * flood
            clock.now += page_authorization.KEPT_SECONDS
            tasks = [asyncio.create_task(authorizer.authorize(f"t{n}", "")) for n in range(MAX_ASKED_AT_ONCE)]
            await fake.until_asked(2 + 2 * flood + MAX_ASKED_AT_ONCE)
            assert await authorizer.authorize("good", "") == Viewer()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_a_flood_of_good_tokens_of_one_namespace_shuts_out_nobody_who_sees_all(few_kept):
    async def main():
        flood, clock = few_kept + 3, Clock()
        of_team = [KNOWN, NO, YES]
        script = [KNOWN, YES, *of_team * flood, *[forever] * 2 * MAX_ASKED_AT_ONCE, KNOWN, YES]
        fake = FakeApi(*script)
        async with talking_to(fake) as api:
            authorizer = TokenAuthorizer(api, clock)
            await authorizer.authorize("admin", "")
            for number in range(flood):
                assert await authorizer.authorize(f"team-{number}", "team") == Viewer("team")
            asked = len(fake.asked)
            assert await authorizer.authorize("admin", "") == Viewer()
            assert len(fake.asked) == asked
            clock.now += page_authorization.KEPT_SECONDS
            again = [(f"team-{flood - 1 - n}", "team") for n in range(MAX_ASKED_AT_ONCE)]
            again += [(f"made-up-{n}", "") for n in range(MAX_ASKED_AT_ONCE)]
            tasks = [asyncio.create_task(authorizer.authorize(*each)) for each in again]
            await fake.until_asked(asked + len(again))
            assert await authorizer.authorize("admin", "") == Viewer()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())

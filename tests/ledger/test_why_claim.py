"""The words for each state of a claim."""

import pytest

from kube.dra import DRIVER, SHARES_OF_CARD
from ledger.claim_room import ClaimAsk, ClaimRoom, LeftOut
from ledger.claimed_cards import CardKey, ClaimedPart
from ledger.quoted_text import MAX_QUOTED
from ledger.why import PodSummary, why
from ledger.why_claim import ShareClaim, waiting_cause
from modes.facts import PodFact

HALF = ClaimAsk(20480, card_mib=40960)
PART = ClaimedPart(CardKey(DRIVER, "gpu-0", "gpu-3"), 40960)
TEMPLATE = "gpu-fraction-4of8-m40960-m81920-0123456789abcdef"


def claim_of(state="waiting", **changes):
    known = {"template": TEMPLATE, "name": "train-x", "driver": DRIVER, "asked": HALF}
    return ShareClaim(state=state, **known | changes)


def explained(claim, node=None, **changes):
    fact = PodFact(namespace="team", name="train", node=node)
    return why(PodSummary(fact=fact, asked="0.500", policy="default", claim=claim, **changes))


def waiting(*numbers, asked=HALF, **changes):
    return explained(claim_of(asked=asked, room=ClaimRoom(*numbers, **changes)))


def test_it_says_what_is_asked_of_which_card_and_which_have_room():
    left_out = (LeftOut("a", "gpu-1", f"taint {DRIVER}/xid=79"), LeftOut("c", "", "cordoned or not ready"))
    room = ClaimRoom(4, 3, 1, 1, 40960, 40960, "a", left_out, 2)
    said = explained(claim_of(room=room), waited_seconds=90)
    assert said == (
        'Pod team/train requested clearml-injector/fraction "0.500". Policy "default" gives it a claim of'
        f" 20480 MiB of a card with 40960 MiB, offered by driver {DRIVER}. It has waited for 90 seconds and"
        " has no node yet. Cards with 40960 MiB: 4, 3 of which are usable; 1 has enough room, the most free"
        f" is 40960 of 40960 MiB on a. Left out: gpu-1 of a (taint {DRIVER}/xid=79), c (cordoned or not"
        " ready) and 2 more. It waits for the scheduler to try again, or for something else that nodes with"
        " room lack."
    )


@pytest.mark.parametrize(
    ("asked", "numbers", "fragment"),
    [
        (HALF, (0,), "No such card is offered: ask the admin"),
        (HALF, (1, 0), "40960 MiB: 1, none of which can be used. Ask the admin when"),
        (HALF, (2, 1, 0, 0, 5, 40960, "a"), "40960 MiB: 2, 1 of which is usable; none has"),
        (HALF, (1, 1), "none has enough room, all are claimed. It starts when pods that hold"),
        (ClaimAsk(5), (3, 3, 2, 2, 9, 10, "a"), "Cards that it accepts: 3; 2 have enough room"),
        (
            ClaimAsk(5, card_mib=10, count=2),
            (3, 3, 2, 0, 9, 10, "a"),
            "2 have enough room, but no node has 2 of them, the most free is 9 of 10 MiB on a. It starts",
        ),
    ],
)
def test_room_of_cards(asked, numbers, fragment):
    assert fragment in waiting(*numbers, asked=asked)


def test_what_is_not_known_is_not_said():
    without_claims = waiting(2, 2, 2, 2, 40960, 40960, "a", claims_are_known=False)
    assert "Cards with 40960 MiB: 2. Users that may list ResourceClaims" in without_claims
    assert "free is" not in without_claims
    assert "It waits for room on a card. Users that may list ResourceSlices" in explained(claim_of())


@pytest.mark.parametrize(
    ("demand", "asked"),
    [
        (ClaimAsk(share=SHARES_OF_CARD), "1 whole card, offered"),
        (ClaimAsk(share=SHARES_OF_CARD, count=2), "2 whole cards of one node, offered"),
        (ClaimAsk(5120), "5120 MiB of a card, offered"),
        (ClaimAsk(share=500_000), "0.5 of a card, offered"),
        (ClaimAsk(share=333_333, count=2), "0.333333 of each of 2 cards of one node, offered"),
        (
            ClaimAsk(40960, card_mib=81920, count=2),
            "40960 MiB of each of 2 cards of one node with 81920 MiB, offered",
        ),
    ],
)
def test_what_a_claim_asks_for(demand, asked):
    assert f"a claim of {asked} by driver {DRIVER}." in explained(claim_of(asked=demand))


SHARE, WHOLE = (ClaimedPart(PART.card, share=share) for share in (125_000, SHARES_OF_CARD))
UNPREPARED = claim_of("allocated", parts=(WHOLE,), reported="Failed to prepare: no driver")


@pytest.mark.parametrize(
    ("claim", "pod", "fragment"),
    [
        (claim_of("not created"), {}, "Kubernetes has not created its ResourceClaim yet: ask again in a few"),
        (claim_of("no template"), {}, f"ResourceClaimTemplate {TEMPLATE} does not exist, so Kubernetes"),
        (claim_of("deleted"), {}, "ResourceClaim train-x was deleted: ask again in a few seconds, or delete"),
        (claim_of("unread"), {}, "Its ResourceClaim could not be read"),
        (ShareClaim(state="unread", template=TEMPLATE), {}, f"gives it a claim by template {TEMPLATE}."),
        (claim_of("allocated", parts=(PART,)), {}, "40960 MiB of gpu-3 in pool gpu-0: the scheduler is"),
        (
            claim_of("allocated", parts=(SHARE,)),
            {"node": "gpu-0", "phase": "Running"},
            "It runs on node gpu-0 with 0.125 of gpu-3.",
        ),
        (UNPREPARED, {"node": "gpu-0"}, "It has its claim on node gpu-0: all of gpu-3, so it does not wait"),
        (UNPREPARED, {"node": "gpu-0"}, "prepare the card; the kubelet tries again: Failed to prepare: no"),
    ],
)
def test_each_state_of_a_claim_has_its_words(claim, pod, fragment):
    assert fragment in explained(claim, **pod)


def test_what_kubernetes_reports_of_a_claim_that_it_could_not_create_is_quoted():
    said = explained(claim_of("no template", reported="x\n" + "y" * 9999))
    assert "Kubernetes reports: x yyy" in said
    assert len(said) < 3 * MAX_QUOTED


ASKED = "20480 MiB of a card with 40960 MiB"


@pytest.mark.parametrize(
    ("claim", "cause"),
    [
        (claim_of(room=ClaimRoom(2, 2, 0, 0, 5, 40960, "a")), f"{ASKED}: none has enough room"),
        (
            claim_of(room=ClaimRoom(2, 2, 1, 1, 5, 40960, "a")),
            f"{ASKED}: a node has room, the scheduler tries again or has another reason",
        ),
        (claim_of(room=ClaimRoom(2, 2, 1, 0, 5, 40960, "a")), f"{ASKED}: too few of one node have room"),
        (claim_of(room=ClaimRoom(2, 0)), f"{ASKED}: no such card can be used"),
        (claim_of(room=ClaimRoom()), f"{ASKED}: no such card is offered"),
        (claim_of(), f"{ASKED}: it is not known which cards have room"),
        (claim_of("allocated"), "the scheduler is binding its node"),
        (claim_of("deleted"), "its claim was deleted"),
    ],
)
def test_the_cause_of_a_wait_is_what_cards_lack_or_the_state_of_the_claim(claim, cause):
    assert waiting_cause(claim) == cause

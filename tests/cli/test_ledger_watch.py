"""The ledger shown again and again: pages of a screen, and changes into a pipe."""

from datetime import UTC, datetime

from rich.text import Text

from cli.ledger_watch import MIN_LINES, SECONDS_OF_A_PAGE, news, page


def texts(group):
    return [line.plain for line in group.renderables]


def test_a_page_fits_the_screen_and_all_pages_show_all():
    drawn = [Text(f"line {number} {'x' * 100}") for number in range(100)]
    seen = []
    for seconds in range(0, 60, SECONDS_OF_A_PAGE):
        found = texts(page(drawn, seconds, 40, 24))
        assert len(found) <= 23
        assert all(len(line) <= 40 for line in found)
        assert found[0].startswith("line 0 ")
        seen += found[1:-1]
    assert {line.split()[1] for line in seen} == {str(number) for number in range(1, 100)}
    assert found[-1].startswith("page 2 of 5")
    assert texts(page(drawn[:5], 0, 400, 24)) == [line.plain for line in drawn[:5]]
    assert len(texts(page(drawn, 0, 1, 1))) == MIN_LINES


def test_into_a_pipe_goes_what_changes():
    moment = datetime(2026, 11, 21, 10, 0, 7, tzinfo=UTC)
    assert news(["a", "b"], ["a", "c"], moment) == ["10:00:07 - b", "10:00:07 + c"]
    assert news(["a"], ["a"], moment) == []

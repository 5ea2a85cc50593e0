"""Lines of the doctor: alike findings on many nodes are one line, and others' texts are bounded."""

from doctor.finding import MAX_TEXT, Diagnosis, lines_of


def test_nodes_with_the_same_finding_share_a_line_in_order_of_the_first():
    found = [Diagnosis("failed", "broken", "repair it", f"gpu-{number}") for number in range(5)]
    lines = lines_of("cards", [*found, Diagnosis("warning", "late", "", "gpu-9")])
    assert [line.text for line in lines] == [
        "nodes gpu-0, gpu-1, gpu-2 and 2 more: broken -- repair it",
        "node gpu-9: late",
    ]
    assert lines[0].nodes == tuple(f"gpu-{number}" for number in range(5))


def test_texts_of_others_are_one_line_of_bounded_length():
    [line] = lines_of("cards", [Diagnosis("failed", "a\nb\r\n" + "x" * 100_000, "do")])
    assert line.what.startswith("a b xxx")
    assert (len(line.what), line.what[-3:]) == (MAX_TEXT, "...")

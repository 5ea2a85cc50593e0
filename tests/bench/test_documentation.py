"""Pages of figures: their words are kept, their tables and plots come from the summary of results."""

import json
from pathlib import Path

import pytest

from bench.documentation import ROOT, Documentation, summarized, summary_text
from bench.harness import Bar, Figure

AGAIN = "run `python -m bench.documentation`"
PAGE = """# Speed
Words.
<!-- bench: bars -->
<!-- end -->
More words.
<!-- bench: webhook -->
an old table
<!-- end -->
<!-- bench: api-server -->
<!-- end -->
Last words.
"""
MADE = """# Speed
Words.
<!-- bench: bars -->
| bench | figure | ratio or value (range) | bar | met |
|---|---|---|---|---|
| webhook | against A | 2.000 (1.000 to 3.000) | >= 15 | **no** |
| api-server | placed alone | 0 | <= 0 | yes |
<!-- end -->
More words.
<!-- bench: webhook -->
Measured 2026-11-21 on 2 cores of Some Processor, Python 3.11.7, commit 0123abc, msgspec 0.22.0; load by \
wrk. Others kept 0.07 cores busy meanwhile.

| figure | value | reference | ratio (range) | bar | met | rounds |
|---|---|---|---|---|---|---|
| against A | 20 rps | A: 10 | 2.000 (1.000 to 3.000) | >= 15 | **no** | 3 |
| at rest | 70 MB |  |  |  |  | 1 |

at rest: of one process.

| containers in a pod | 1 | 10 |
|---|---|---|
| us CPU | 60.5 | 100.0 |
<!-- end -->
<!-- bench: api-server -->
Measured 2026-11-21 on 2 cores of Some Processor, Python 3.11.7, commit 0123abc, msgspec 0.22.0; \
Kubernetes 1.36.3. Others kept 0.07 cores busy meanwhile.

| figure | value | reference | ratio (range) | bar | met | rounds |
|---|---|---|---|---|---|---|
| placed alone | 0 |  |  | <= 0 | yes | 1 |
<!-- end -->
Last words.
"""
MACHINE = {
    "processor": "Some Processor",
    "cores": 2,
    "python": "3.11.7",
    "versions": {"msgspec": "0.22.0"},
    "commit": "0123abc",
    "date": "2026-11-21",
    "foreign_load": 0.07,
}
WEBHOOK = {
    "machine": MACHINE,
    "figures": [
        Figure("against A", "rps", [10.0, 20.0, 30.0], "A", [10.0] * 3, Bar(">=", 15)).as_json(),
        Figure("at rest", "MB", [70.0], note="of one process").as_json(),
    ],
    "load": "wrk",
    "containers": {"1": 60.5, "10": 100.0},
    "concurrency": {"ours": {"1": 3000, "16": 6000}, "A": {"1": 500, "16": 600}},
    "rates": {"50": {"p50": 1.9, "p99": 3.2}, "200": {"p50": 1.2, "p99": 6.1}},
}
API_SERVER = {
    "machine": MACHINE,
    "figures": [Figure("placed alone", "", [0.0], bar=Bar("<=", 0)).as_json()],
    "kubernetes": "1.36.3",
}


@pytest.fixture
def documentation(tmp_path: Path) -> Documentation:
    (tmp_path / "page.md").write_text(PAGE)
    summary = tmp_path / "results.json"
    summary.write_text(summary_text({"webhook": summarized(WEBHOOK), "api-server": summarized(API_SERVER)}))
    return Documentation([tmp_path / "page.md"], tmp_path, summary)


def page_of(documentation: Documentation) -> Path:
    return documentation.pages[0]


def test_blocks_are_made_again_and_words_are_kept(documentation: Documentation):
    assert documentation.text(page_of(documentation)) == MADE


def test_made_again_the_page_stays_as_it_is(documentation: Documentation):
    documentation.write()
    page = page_of(documentation)
    assert documentation.text(page) == page.read_text() == MADE


def test_plots_are_written_next_to_the_page(documentation: Documentation):
    documentation.write()
    throughput = (documentation.plots_folder / "throughput.svg").read_text()
    latency = (documentation.plots_folder / "latency.svg").read_text()
    assert ">ours<" in throughput
    assert ">A<" in throughput
    assert ">p50<" in latency
    assert ">p99<" in latency


def test_a_bench_that_the_summary_lacks_is_named(documentation: Documentation):
    documentation.summary.write_text(summary_text({"webhook": summarized(WEBHOOK)}))
    with pytest.raises(KeyError, match="api-server"):
        documentation.text(page_of(documentation))


def test_figures_of_one_bench_are_replaced(documentation: Documentation, tmp_path: Path):
    folder = tmp_path / "newer"
    folder.mkdir()
    newer = {**API_SERVER, "bench": "api-server", "kubernetes": "1.37.0"}
    (folder / "api-server.json").write_text(json.dumps(newer))
    documentation.take_in(folder)
    made = MADE.replace("Kubernetes 1.36.3", "Kubernetes 1.37.0")
    assert documentation.text(page_of(documentation)) == made


def test_the_summary_has_a_line_for_each_figure_and_no_single_rounds(documentation: Documentation):
    lines = documentation.summary.read_text().splitlines()
    assert [line.count('"figure":') for line in lines if '"figure":' in line] == [1, 1, 1]
    assert not any('"each"' in line for line in lines)


@pytest.mark.parametrize("page", ["docs/internals/performance.md", "bench/README.md"])
def test_a_page_shows_the_stored_results(page: str):
    real = Documentation([ROOT / page], ROOT / "docs" / "images", ROOT / "bench" / "results.json")
    assert real.text(ROOT / page) == (ROOT / page).read_text(), AGAIN


def test_the_plots_show_the_stored_results():
    real = Documentation([], ROOT / "docs" / "images", ROOT / "bench" / "results.json")
    for name, drawing in real.plots().items():
        assert (ROOT / "docs" / "images" / name).read_text() == drawing, f"{name}: {AGAIN}"

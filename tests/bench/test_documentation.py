"""docs/performance.md: its words are kept, its tables and plots come from the results."""

import json
from pathlib import Path

import pytest

from bench.documentation import ROOT, Documentation
from bench.harness import Bar, Figure

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
    (tmp_path / "webhook.json").write_text(json.dumps(WEBHOOK))
    (tmp_path / "api-server.json").write_text(json.dumps(API_SERVER))
    return Documentation(tmp_path / "page.md", tmp_path)


def test_blocks_are_made_anew_and_words_are_kept(documentation: Documentation):
    assert documentation.text() == MADE


def test_made_again_the_page_stays_as_it_is(documentation: Documentation):
    documentation.write()
    assert documentation.text() == documentation.page.read_text() == MADE


def test_plots_are_written_beside_the_page(documentation: Documentation):
    documentation.write()
    throughput = (documentation.page.parent / "throughput.svg").read_text()
    latency = (documentation.page.parent / "latency.svg").read_text()
    assert ">ours<" in throughput
    assert ">A<" in throughput
    assert ">p50<" in latency
    assert ">p99<" in latency


def test_a_bench_without_a_result_is_named(documentation: Documentation):
    (documentation.results / "api-server.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"api-server\.json"):
        documentation.text()


def test_the_page_and_its_plots_show_the_stored_results():
    real = Documentation(ROOT / "docs" / "performance.md", ROOT / "bench" / "results")
    again = "run `python -m bench.documentation`"
    assert real.text() == real.page.read_text(), again
    for name, drawing in real.plots().items():
        assert (real.page.parent / name).read_text() == drawing, f"{name}: {again}"

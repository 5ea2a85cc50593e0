# Every target creates .venv from the hashed lock files: `make demo` with what the demo loads, then with what else the
# product runs; `make test` with what tests it, the others with all. Python compiles only the modules that it loads.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
SHOWABLE := .venv/showable
RUNNABLE := .venv/runnable
TESTABLE := .venv/testable
READY := .venv/ready
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
BENCHES := handler webhook rotation placement regimes controller cluster

.PHONY: help demo test test-cluster test-nodes test-long test-oldest browser screenshots clearml lint bench bench-gpu bench-packing $(BENCHES:%=bench-%) cluster chart metrics sbom audit references lock clean
help: ## List all targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(SHOWABLE): requirements/demo.txt requirements/editable.txt pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(INSTALL) --no-compile --require-hashes --no-deps -r requirements/demo.txt -r requirements/editable.txt
	$(INSTALL) --no-index --no-deps --no-build-isolation --editable .
	touch $@

$(RUNNABLE): $(SHOWABLE) requirements/runtime.txt
	$(INSTALL) --no-compile --require-hashes --no-deps -r requirements/runtime.txt
	touch $@

$(TESTABLE): $(RUNNABLE) requirements/test.txt
	$(INSTALL) --no-compile --require-hashes --no-deps -r requirements/test.txt
	touch $@

$(READY): $(TESTABLE) requirements/dev.txt
	$(INSTALL) --no-compile --require-hashes --no-deps -r requirements/dev.txt
	touch $@

demo: $(SHOWABLE) ## See a labelled pod become a half-GPU pod, over TLS, in one command
	$(BIN)/fraction-injector demo
	@test -e $(RUNNABLE) || echo "  Installing what the commands for a cluster and for one machine need ..."
	@$(MAKE) --no-print-directory --silent $(RUNNABLE)

# Processes start: none compiles the product again, also where the environment forbids to write bytecode.
test test-cluster test-nodes test-long test-oldest: export PYTHONDONTWRITEBYTECODE =

test: $(TESTABLE) ## Run the tests that need Python alone, in five minutes; SHUFFLE=SEED repeats an order of files
	$(BIN)/pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder

test-cluster: $(READY) ## Run the tests on a real API server, scheduler and Kueue, built first with Go 1.26; K8S=1.30, 1.33 or 1.36 takes another release
	$(BIN)/python -m tests.run_tier cluster

test-nodes: browser clearml ## Run the tests on kubelets, the image, the browser, NVIDIA's programs and podman, as root, all built first
	$(BIN)/python -m tests.run_tier nodes

test-long: $(READY) ## Run long tests of one folder in full, each day those of another; REGIME=ledger names one
	$(BIN)/python -m tests.run_tier long

test-oldest: $(READY) ## Run the tests that depend on the version of Kubernetes on 1.30, the oldest supported one
	K8S=1.30 $(BIN)/python -m tests.run_tier cluster -m oldest_kubernetes

# One after the other, also with `make -j`: benches must not share their cores.
.NOTPARALLEL:
bench: $(BENCHES:%=bench-%) ## Run all benches, each against its reference (about 40 minutes; needs Go 1.26)

bench-handler: $(READY) ## Measure a review without a server, against json.loads, also for the worst pods of 512 KiB
	$(BIN)/python -m bench.handler $(BENCH)
	$(BIN)/python -m bench.worst

bench-webhook: $(READY) ## Measure the webhook as it is installed, over TLS, against the idiomatic one and a constant answer
	$(BIN)/python -m bench.webhook $(BENCH)

bench-rotation: $(READY) ## Swap certificates under load and count failed handshakes
	$(BIN)/python -m bench.rotation $(BENCH)

bench-placement: $(READY) ## Count placements per second at 1,213 and 10,000 nodes, and find the longest step
	$(BIN)/python -m bench.decisions $(BENCH)

bench-packing: $(READY) ## Measure how full openb's cluster gets; TRACE=DIR has its CSV files
	$(BIN)/python -m bench.packing --trace $(TRACE) $(BENCH)

bench-regimes: $(READY) ## Compare placement on clusters for which nothing was tuned: filling, churn, odd orders, changes; and how long pods wait
	$(BIN)/python -m bench.packing.regimes $(BENCH)
	$(BIN)/python -m bench.packing.waits

bench-controller: $(READY) ## Find the controller's longest step and its memory at 10,000 nodes and 80,000 pods, and with the largest pods
	$(BIN)/python -m bench.controller_loop $(BENCH)
	$(BIN)/python -m bench.large_objects

bench-gpu: $(READY) ## On a machine with a GPU, measure what tests without one cannot; LIMITER=FILE names libvgpu.so
	$(BIN)/python -m bench.gpu $(if $(LIMITER),--limiter $(LIMITER)) $(BENCH)

bench-cluster: $(READY) ## Create pods on a real API server, with the webhook and without, and 200 at once in mode dra (needs Go 1.26)
	$(BIN)/python -m bench.cluster $(BENCH)

browser: $(READY) ## Install the driver of Debian's Chromium, for the tests of the page and its screenshots
	$(INSTALL) --require-hashes --no-deps -r requirements/browser.txt

clearml: $(READY) ## Install ClearML's client, for machine run --clearml and its tests
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/clearml.txt

screenshots: browser ## Make the screenshots of the docs, in Debian's Chromium
	$(BIN)/python -m testbed.screenshots

lint: $(READY) ## Check style, types and layers, and count the product's lines
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if GOBIN=$(abspath $(BIN)) go install $(ACTIONLINT); then $(BIN)/actionlint; else echo "the workflows are not checked: actionlint needs Go and its module proxy"; fi
	@echo "$$(git ls-files '*.py' | grep -vE '^(tests|bench|testbed)/' | xargs cat | wc -l) lines of the product"

cluster: $(TESTABLE) ## Start a control plane with fake GPU nodes, until Ctrl-C; K8S as in test (needs Go 1.26); REAL=1: real nodes and pods, as root
	@$(BIN)/python -m $(if $(REAL),testbed.nodes,testbed).playground

chart: $(READY) ## Generate the chart's schema and README from its values.yaml
	$(BIN)/python -m charts.generate

metrics: $(READY) ## Generate the table of docs/reference/metrics.md from the processes' metrics
	$(BIN)/python -m charts.metrics_page

sbom: $(READY) ## Write build/sbom.cdx.json: the bill of materials (CycloneDX) of the locked runtime packages
	mkdir -p build
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible -o build/sbom.cdx.json requirements/runtime.txt

audit: $(READY) ## Check all locked packages for known vulnerabilities (asks the Python Package Index), in a separate environment
	$(PYTHON) -m venv --clear build/audit
	build/audit/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/audit.txt
	for lock in runtime editable build test dev browser clearml audit; do build/audit/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements/$$lock.txt || exit 1; done

references: $(READY) ## Write the reviewed tags and digests of images and actions (requirements/references.toml) into the files that name them
	$(BIN)/python -m testbed.references
	$(BIN)/python -m charts.generate

lock: $(READY) ## Compile the lock files from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -o requirements/runtime.txt pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -c requirements/runtime.txt --group pyproject.toml:demo -o requirements/demo.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -c requirements/runtime.txt --group dev -o requirements/dev.txt pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -c requirements/dev.txt --group pyproject.toml:test -o requirements/test.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -c requirements/dev.txt --group pyproject.toml:editable -o requirements/editable.txt
	echo uv | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -c requirements/dev.txt -o requirements/build.txt -
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -c requirements/dev.txt --group pyproject.toml:browser -o requirements/browser.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -c requirements/dev.txt --extra clearml -o requirements/clearml.txt pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -c requirements/dev.txt --group pyproject.toml:audit -o requirements/audit.txt

clean: ## Remove generated files
	rm -rf .venv dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

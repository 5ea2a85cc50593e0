# Every target sets .venv up by itself, from the hashed lock file.
PYTHON ?= python3
BIN := .venv/bin
LOCK := requirements/dev.txt
READY := .venv/ready

.PHONY: help demo test lint bench bench-handler bench-webhook bench-rotation bench-packing bench-placement bench-ledger bench-cluster bench-docs cluster chart lock clean
help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(READY): $(LOCK) pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(LOCK)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable .
	touch $@

demo: $(READY) ## See a labelled pod become a half-GPU pod, over TLS, in one command
	$(BIN)/fraction-injector demo

test: $(READY) ## Run every test
	$(BIN)/pytest

bench: bench-handler bench-webhook bench-rotation bench-packing bench-placement bench-ledger bench-placing ## Measure everything, each beside its reference

bench-handler: $(READY) ## Measure a review without a server, against json.loads
	$(BIN)/python -m bench.handler $(BENCH)

bench-webhook: $(READY) ## Measure the webhook over TLS, against the idiomatic one and a constant answer
	$(BIN)/python -m bench.webhook $(BENCH)

bench-rotation: $(READY) ## Swap certificates under load and count failed handshakes
	$(BIN)/python -m bench.rotation $(BENCH)

bench-packing: $(READY) ## Compare placement policies; TRACE=DIR takes openb's files instead of a made-up trace
	$(BIN)/python -m bench.packing $(if $(TRACE),--trace $(TRACE))
	$(BIN)/python -m bench.packing.waiting

bench-placement: $(READY) ## Count placements per second, against a plain scan
	$(BIN)/python -m bench.placement $(BENCH) $(if $(TRACE),--trace $(TRACE))

bench-ledger: $(READY) ## Rebuild the ledger of 10,000 nodes from list pages, against json.loads
	$(BIN)/python -m bench.ledger $(BENCH)

bench-placing: $(READY) ## Measure the webhook while a controller on another core places
	$(BIN)/python -m bench.placing $(BENCH)

bench-docs: $(READY) ## Measure the handler, the webhook and rotation anew, and write docs/performance.md
	$(BIN)/python -m bench.handler --json bench/results/handler.json
	$(BIN)/python -m bench.webhook --json bench/results/webhook.json --more 700000
	$(BIN)/python -m bench.rotation --json bench/results/rotation.json
	$(BIN)/python -m bench.documentation

bench-cluster: $(READY) ## Measure the controller with 1,000 nodes and 10,000 pods on a real API server (needs Go 1.26)
	$(BIN)/python -m bench.cluster $(BENCH)

lint: $(READY) ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

cluster: $(READY) ## Bring up a control plane with fake GPU nodes, until Ctrl-C (needs Go 1.26)
	@$(BIN)/python -m tests.control_plane.playground

chart: $(READY) ## Make the chart's schema and README anew from its values.yaml
	$(BIN)/python -m charts.generate

image-test: $(READY) ## Build and run the image (as root, with Debian's buildah and mmdebstrap)
	IMAGE_TESTS=1 $(BIN)/pytest tests/image

lock: $(READY) ## Compile the lock files anew from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -o requirements/runtime.txt pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -c requirements/runtime.txt --group dev -o requirements/dev.txt pyproject.toml
	echo uv | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -c requirements/dev.txt -o requirements/build.txt -

clean: ## Remove what make made
	rm -rf .venv dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

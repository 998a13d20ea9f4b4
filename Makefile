# Two commands matter: `make demo` shows Cloche at work, `make test` proves it. Both set up what they need.
# Each step leaves a mark when it is done, so that the second time only what changed is done again.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Hundreds of processes import the same modules: each would compile them again where the surroundings forbid to keep bytecode.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# What the benchmarks are measured beside; nothing else needs it, so nothing else installs it.
PEERS := .cache/peers
# The fuzzer, likewise in an environment of its own, and for how long it runs.
FUZZ := .cache/fuzz
FUZZ_S ?= 60
# Two workers, a file to a worker. For example PYTEST_ARGS="-k gate -x" instead.
PYTEST_ARGS ?= -n 2 --dist loadfile
CODE := engine cli sandbox_images tests examples .ci

.PHONY: help setup engine engine-status engine-stop gvisor gvisor-engine image demo check docs matrix test fuzz podman peers bench bench-check chaos lock clean

help: ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)$$/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

setup: $(READY) ## the locked Python environment in .venv
	@:

$(READY): .ci/setup .ci/requirements-dev.lock pyproject.toml
	@.ci/setup $(VENV)
	@touch $@

engine: $(READY) ## a Docker engine: the one that answers, or a private one if none does
	@$(PY) .ci/engine.py start

engine-status: $(READY) ## whether an engine answers, and whose it is
	@$(PY) .ci/engine.py status

engine-stop: $(READY) ## stop the engines that `make` started, and no other
	@status=0; $(PY) .ci/engine.py stop second || status=1; $(PY) .ci/engine.py stop || status=1; exit $$status

gvisor: engine ## install runsc and add it to the engine that `make engine` started; any other is left alone
	@$(PY) .ci/engine.py gvisor

gvisor-engine: $(READY) ## a second engine that has gVisor, for the tests of cells
	@$(PY) .ci/engine.py start second

image: engine ## the image of cells, built once; from current versions, and says so, where locked ones are gone
	@$(VENV)/bin/cloche image build --fallback

demo: image ## validate, publish, run, interrupt and resume the examples, on real containers
	@$(PY) examples/demo.py

check: $(READY) ## format, lint, types, import layers and the tests that need no engine
	$(VENV)/bin/ruff format --check $(CODE)
	$(VENV)/bin/ruff check $(CODE)
	$(VENV)/bin/mypy
	MYPYPATH=.ci $(VENV)/bin/mypy .ci/*.py
	$(VENV)/bin/lint-imports
	$(PY) -m pytest tests/unit tests/contract $(PYTEST_ARGS)

docs: $(READY) ## render the reference pages that come from the code
	@$(PY) -m cli.reference --write
	@$(PY) -m tests.matrix --render

matrix: image ## take every protection of a cell away, attack it, and render docs/reference/probe-matrix.md: minutes
	@$(PY) -m tests.matrix

test: image gvisor-engine podman ## the whole suite, containers included, cells under runc and under gVisor
	@$(PY) -m pytest tests $(PYTEST_ARGS)

fuzz: $(FUZZ)/.ready ## attack every reader of untrusted bytes for FUZZ_S seconds, split over them; what is found is kept
	@PYTHONPATH=.:sandbox_images/guest nice $(FUZZ)/bin/python -m tests.fuzz --seconds $(FUZZ_S)

$(FUZZ)/.ready: .ci/requirements.lock .ci/requirements-fuzz.lock | $(READY)
	@echo "cloche: installing the locked fuzzer into $(FUZZ)"
	@rm -rf $(FUZZ)
	@$(PY) -m venv $(FUZZ)
	@$(FUZZ)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --no-compile --require-hashes --no-deps \
		-r .ci/requirements.lock -r .ci/requirements-fuzz.lock
	@touch $@

podman: ## Podman for the tests of its socket, installed when missing; nothing is started
	@.ci/podman

peers: $(PEERS)/.ready ## DBOS and LangGraph in an environment of their own, for the benchmarks
	@:

$(PEERS)/.ready: .ci/requirements-peers.lock | $(READY)
	@echo "cloche: installing the locked peers into $(PEERS)"
	@rm -rf $(PEERS)
	@$(PY) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --no-compile --require-hashes --no-deps \
		-r .ci/requirements-peers.lock
	@touch $@

bench: image ## measure: medians and ratios in one run, beside DBOS and LangGraph where they can be installed
	@$(MAKE) peers || true
	@$(PY) -m tests.benchmarks

bench-check: image ## measure, and fail outside the bands
	@$(MAKE) peers || true
	@$(PY) -m tests.benchmarks --check

chaos: image ## crash runs at every moment and a thousand random ones, on an engine of its own: about an hour
	@CLOCHE_SIZES=full $(PY) -m pytest -q tests/sandbox/test_run_sizes.py
	@$(PY) -m tests.chaos

lock: $(READY) ## resolve the dependencies anew into .ci/requirements*.lock
	@$(VENV)/bin/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-header \
		--output-file .ci/requirements.lock pyproject.toml
	@$(VENV)/bin/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-header \
		--extra dev --output-file .ci/requirements-dev.lock pyproject.toml
	@$(VENV)/bin/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-header \
		--group peers --output-file .ci/requirements-peers.lock
	@$(VENV)/bin/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-header \
		--group fuzz --output-file .ci/requirements-fuzz.lock

clean: ## remove the environment and caches; the engine, the image and Cloche's home stay
	@rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

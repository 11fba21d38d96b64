# Every target prepares its own environment (see scripts/bootstrap.sh), so a clean clone needs
# nothing but `make TARGET`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/.venv/bin
VENV_PYTHON := $(BIN)/python
BENCHES := flatness overhead recompute load views shares factorised matrix fivm commits age nested stream read endless
REKINDLE_FUZZ_EXAMPLES ?= 60
export REKINDLE_FUZZ_EXAMPLES

QUICK := not fuzz and not torture and not slow and (not spark or smoke)

stage = @printf '\n== %s\n' "$(1)"

.PHONY: help venv demo quick test lint format types imports pytest fuzz torture external bench examples docs-test clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## */\1\t/' \
	    | while IFS=$$'\t' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

venv: ## create or refresh .venv and check for Java
	@scripts/bootstrap.sh

demo: venv ## a guided tour on generated data
	@$(BIN)/rekindle demo

# What starts Spark has the mark `spark`, and the few that stand for it here `smoke`: both are given in
# tests/conftest.py.
quick: venv ## lint, types, tests without Spark and a few with it
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory imports
	@$(MAKE) --no-print-directory pytest ARGS='-m "$(QUICK)" --hypothesis-profile=quick $(ARGS)'

# Stages run in this order and stop at the first failure, also under `make -j`.
test: venv ## everything CI checks: lint, types, imports, tests
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory imports
	@$(MAKE) --no-print-directory pytest

lint: venv ## ruff
	$(call stage,lint (ruff))
	@$(BIN)/ruff check .

format: venv ## rewrite the sources in ruff's format
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

types: venv ## mypy --strict
	$(call stage,types (mypy --strict))
	@$(BIN)/mypy

imports: venv ## import-linter: the order of the packages
	$(call stage,imports (import-linter))
	@$(BIN)/lint-imports --no-logo --no-cache

# Two processes, each with a Spark session of its own: most tests wait for one thread of it. Each
# begins with one half of the files, and takes over from the other what is left at the end.
pytest: venv ## unit tests and doctests; ARGS='-k name' narrows
	$(call stage,tests (pytest))
	@$(VENV_PYTHON) -m pytest -q -n 2 --dist worksteal $(ARGS)

SUITES := tpch tpcds nexmark nexmark_streams sqllogictest pg_ivm openivm feldera souffle ddlog mrql mrql_views
# Thousands of small plans, each run a few times: compiling them well would not pay.
external: export JAVA_TOOL_OPTIONS = -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
external: venv ## suites that other people wrote, in full; writes docs/external/
	@for suite in $(SUITES); do printf '\n== %s\n' "$$suite"; \
	    $(VENV_PYTHON) -u -m tests.external.$$suite $(ARGS) || failed=1; done; exit $${failed:-0}

# Fails too when a declared kind of node, way to follow a change or feature never occurred.
fuzz: venv ## long property tests and a table of what they covered; REKINDLE_FUZZ_EXAMPLES=60
	$(call stage,fuzz (REKINDLE_FUZZ_EXAMPLES=$(REKINDLE_FUZZ_EXAMPLES)))
	@$(VENV_PYTHON) -m pytest -q -n 2 --dist worksteal --timeout=0 --hypothesis-profile=thorough \
	    -m 'not fuzz and not torture and not slow and not spark' tests
	@$(VENV_PYTHON) -m pytest -q -m fuzz --timeout=0 --hypothesis-profile=thorough tests $(ARGS)

# What has passed is noted under build/torture: a run goes on from where the last one stopped.
torture: export REKINDLE_TORTURE = $(CURDIR)/build/torture
torture: venv ## kill -9, lose executors, fill disks; goes on from where it stopped
	$(call stage,torture)
	@$(VENV_PYTHON) -m pytest -q -m torture --timeout=0 tests $(ARGS)

bench: venv ## the benchmarks, results in build/bench/*.json
	@mkdir -p build/bench
	@for name in $(BENCHES); do \
	    printf '\n== bench %s\n' "$$name"; \
	    $(BIN)/rekindle bench "$$name" --json "build/bench/$$name.json" || exit 1; \
	done

examples: venv ## run every examples/*.py in a fresh directory
	$(call stage,examples)
	@scripts/run_examples.sh

docs-test: venv ## run the Python blocks of docs/tutorial
	$(call stage,docs)
	@$(VENV_PYTHON) scripts/run_tutorial.py

clean: ## remove build outputs and caches (keeps .venv and warehouses)
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	    .import_linter_cache spark-warehouse metastore_db derby.log artifacts
	@find . -path ./.venv -prune -o -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

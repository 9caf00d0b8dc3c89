# Two commands do all the set-up: `make demo` and `make test`.
# Needs only make and python3 >= 3.11; the rest is installed here.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 24
SEED   ?= 1
OUT    ?= demo-out
SEEDS  ?= $(shell seq 1 10)

.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.done  ## make .venv from the lock with hashes

$(VENV)/.locked: requirements.lock tools/venv.sh
	@sh tools/venv.sh $(PYTHON) $(VENV)
	@touch $@

# Apart from the lock, so that a new line in pyproject.toml doesn't cost a new .venv.
$(VENV)/.done: $(VENV)/.locked pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: install  ## real trainings on this machine, fair share against SLAQ (SEED=, JOBS=, OUT=)
	@$(BIN)/slaqctl demo --jobs $(JOBS) --seed $(SEED) --out "$(OUT)"

packages:
	@sh tools/packages.sh

test: install packages check coverage  ## everything that must hold, real services included
	$(BIN)/python -m pytest -m "not soak" --randomly-seed=1 $(ARGS)

check: install  ## linters and types alone
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

# The tests beside each room, without those of damage by the hundred, which no branch needs.
coverage: install  ## fails where a branch of predict, allocate or act has no test
	$(BIN)/python -m coverage run -m pytest -q -m "not soak" -k "not flipped_bit and not no_table_grows" \
	  tests/unit/predict tests/unit/allocate tests/unit/act
	$(BIN)/python -m coverage report

mutation: install  ## fails where too many changes to predict, allocate or act go unnoticed (an hour)
	@sh tools/mutation.sh $(BIN)

bench: install  ## times and ratios; fails past a figure that was promised
	$(BIN)/python -m benchmarks

bench-demo: install  ## what SLAQ gains in the demo, seed by seed (SEEDS="1 2 3")
	$(BIN)/python -m benchmarks.demo $(SEEDS)

# `make test` asks the same of the same code each time: one order, one set of made-up examples. Here both are new.
explore: install packages  ## what was made up by hypothesis, twenty times anew; all tests in an order of chance
	@for round in $$(seq 20); do \
	  $(BIN)/python -m pytest -q -m "hypothesis and not soak" --hypothesis-profile=explore --timeout=3600 || exit 1; \
	done
	$(BIN)/python -m pytest -m "not soak" --hypothesis-profile=explore

soak: install packages mutation explore  ## the long runs
	$(BIN)/python -m pytest -m soak --timeout=7200 $(ARGS)

lock:  ## renew requirements.lock (needs uv)
	uv pip compile --quiet --generate-hashes --universal --python-version 3.11 \
	  --extra dev --extra metrics --no-emit-index-url --no-header --upgrade \
	  pyproject.toml -o requirements.lock

clean:  ## remove .venv and what was built
	rm -rf $(VENV) dist mutants .coverage .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

.PHONY: help install demo packages test check coverage mutation bench bench-demo explore soak lock clean

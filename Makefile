# Everything runs in .venv, made on first use. `make run` is all that a newcomer needs.

# The first interpreter that is new enough; `make PYTHON=...` chooses another one.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
BIN := .venv/bin
LISTENER ?= 127.0.0.1:9092
DATA_DIR ?= .data
SEEDS ?= 0-999
PIPELINE_DIR ?= .pipeline

# Tests start hundreds of processes; without byte code on disk each would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test pipeline pipeline-test compose-test lint coverage sim mutations bench settings clean

run: .venv/.installed
	@exec $(BIN)/coordinator-server serve --listener $(LISTENER) --data-dir $(DATA_DIR)

test: .venv/.installed-dev
	$(BIN)/python -m tests.again $(PYTEST_ARGUMENTS)

# A small workload, the tables of the Spark pipeline on its log, and a report; see docs/pipeline.md.
pipeline: .venv/.installed-pipeline
	@$(BIN)/python examples/offset_pipeline/demo.py $(PIPELINE_DIR)

# The tests of the pipeline that take minutes each: a cluster of two workers, the demo end to end.
pipeline-test: .venv/.installed-dev
	LONG_TESTS=1 $(BIN)/python -m tests.again $(PYTEST_ARGUMENTS) tests/long

# Consumers in containers. Brings a Docker engine up where there is none (Debian, as root).
compose-test: .venv/.installed-dev
	tests/compose/engine-up.sh
	COMPOSE_TESTS=1 $(BIN)/python -m tests.again -q --durations=5 $(PYTEST_ARGUMENTS) tests/compose

lint: .venv/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Every branch of the group coordinator is taken by its unit tests.
coverage: .venv/.installed-dev
	$(BIN)/python -m coverage run -m pytest -q tests/unit/group
	$(BIN)/python -m coverage report

# `make sim SEEDS=0-999`; see docs/simulation.md.
sim: .venv/.installed-dev
	$(BIN)/python -m tests.sim --seeds $(SEEDS)

mutations: .venv/.installed-dev
	$(BIN)/python -m tests.sim.mutations

bench: .venv/.installed-dev
	$(BIN)/python -m benchmarks

# The page is printed from the table; a test holds the two together.
settings: .venv/.installed
	$(BIN)/coordinator-server settings > docs/settings.md

clean:
	rm -rf .venv .pipeline dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
	$(PYTHON) -m venv .venv

# The stamps make the second run quick: nothing is installed until pyproject.toml changes.
.venv/.installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/.installed-pipeline: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[pipeline,migrate]'
	@touch .venv/.installed $@

.venv/.installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch .venv/.installed $@

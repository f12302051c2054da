# Everything runs in .venv, made on first use. `make run` is all that a newcomer needs.

# The first interpreter that is new enough; `make PYTHON=...` chooses another one.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
BIN := .venv/bin
LISTENER ?= 127.0.0.1:9092
DATA_DIR ?= .data
SEEDS ?= 0-999

.PHONY: run test lint coverage sim mutations bench settings clean

run: .venv/.installed
	@exec $(BIN)/coordinator-server serve --listener $(LISTENER) --data-dir $(DATA_DIR)

test: .venv/.installed-dev
	$(BIN)/python -m pytest $(PYTEST_ARGUMENTS)

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
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
	$(PYTHON) -m venv .venv

# The stamps make the second run quick: nothing is installed until pyproject.toml changes.
.venv/.installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/.installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch .venv/.installed $@

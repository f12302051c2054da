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
# More than there are processors, as most of a test with real clients is waiting.
WORKERS ?= 4
# A test that takes longer than `faulthandler_timeout` says where it hangs, and fails.
PYTEST := $(BIN)/python -m pytest -o faulthandler_exit_on_timeout=true

# Tests start hundreds of processes; without byte code on disk each would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test nightly test-lowest test-pythons pipeline compose-test lint lock coverage print-covered sim fuzz-kafka mutations bench bench-keep profile \
	docs man prose settings reference audit clean

run: .venv/.installed
	@exec $(BIN)/coordinator-server serve --listener $(LISTENER) --data-dir $(DATA_DIR)

# What a contributor runs. One test or file: .venv/bin/pytest tests/...; see CONTRIBUTING.md.
# Tests that measure time or CPU run last, one by one. Pytest's exit status 5: a run had no test.
MARKERS ?= not nightly
test: .venv/.installed-dev
	@set -x; others=0; alone=0; \
	$(PYTEST) -n $(WORKERS) -m "$(MARKERS) and not alone" $(PYTEST_ARGUMENTS) || others=$$?; \
	$(PYTEST) -m "$(MARKERS) and alone" $(PYTEST_ARGUMENTS) || alone=$$?; \
	case $$others-$$alone in 0-0 | 0-5 | 5-0) ;; *) exit 1 ;; esac

# What takes too long for every change. SLICES=NAME runs one slice of it; see tests/nightly.py.
nightly: .venv/.installed-dev
	tests/compose/engine-up.sh
	$(BIN)/python -m tests.nightly $(SLICES)

# The lower bounds in pyproject.toml hold: both packages of the core, each client, the tables of Spark.
# Without what uses no library: the group core, and the rules about our text and our imports.
test-lowest: .venv-lowest/.installed
	.venv-lowest/bin/python -m pytest -q -n $(WORKERS) -m "not nightly and not alone" -p no:cacheprovider \
		--ignore=tests/unit/core/groups \
		--ignore=tests/unit/test_tidy.py --ignore=tests/unit/test_import_circles.py \
		tests/unit tests/codec tests/e2e/test_migration.py tests/testing/test_plugin.py \
		$(addprefix tests/clients/test_,aiokafka.py codecs.py confluent_kafka.py kafka_python.py) \
		$(addprefix tests/pipeline/,tables decode report test_files.py test_golden.py)

# The unit tests and the main client tests on each other version of Python that is installed.
test-pythons: .venv/.installed-dev
	WORKERS=$(WORKERS) tests/pythons.sh

# A small workload, the tables of the Spark pipeline on its log, and a report; see docs/pipeline.md.
pipeline: .venv/.installed-pipeline
	@$(BIN)/python examples/offset_pipeline/demo.py $(PIPELINE_DIR)

# Consumers in containers. Brings a Docker engine up where there is none (Debian, as root).
compose-test: .venv/.installed-dev
	tests/compose/engine-up.sh
	$(BIN)/python -m pytest -q --durations=5 $(PYTEST_ARGUMENTS) tests/compose

# What users run is checked as their systems see it, too; the tests need POSIX.
INSTALLED := coordinator_server protocol storage pipeline examples
lint: .venv/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	for platform in darwin win32; do \
		$(BIN)/mypy --platform $$platform --cache-dir .mypy_cache/$$platform $(INSTALLED) || exit; \
	done
	$(BIN)/lint-imports

# Every branch of the cores is taken by their unit tests and those of their coordinators.
COVERED := $(addprefix tests/unit/,core coordinator security)
coverage: .venv/.installed-dev
	$(BIN)/python -m coverage run -m pytest -q $(COVERED)
	$(BIN)/python -m coverage report

print-covered:
	@echo $(COVERED)

# `make sim SEEDS=0-999`; see docs/simulation.md.
sim: .venv/.installed-dev
	$(BIN)/python -m tests.sim --seeds $(SEEDS)

# Random sequences of requests, also sent to a Kafka that it starts; see docs/conformance.md.
# SEEDS=FIRST-LAST, THEMES=classic,share, FUZZ_ARGUMENTS="--seconds 100 --kafka HOST:PORT".
fuzz-kafka: .venv/.installed-dev
	$(BIN)/python -m tests.fuzz_kafka --seeds $(SEEDS) $(if $(THEMES),--themes $(THEMES)) $(FUZZ_ARGUMENTS)

mutations: .venv/.installed-dev
	$(BIN)/python -m tests.sim.mutations

# CPU per operation against the figures in benchmarks/figures.json; exits 1 if something costs more.
bench: .venv/.installed-dev
	$(BIN)/python -m benchmarks

# Flame graphs of the broker under each kind of load, by py-spy, in .profiles.
profile: .venv/.installed-dev
	@test -x $(BIN)/py-spy || $(BIN)/python -m pip install --quiet --disable-pip-version-check 'py-spy>=0.4,<1'
	$(BIN)/python -m benchmarks.profiling

# Makes the figures of this run those that `make bench` compares with.
bench-keep: .venv/.installed-dev
	$(BIN)/python -m benchmarks --keep

# Known vulnerabilities of the locked dependencies, as far as their database can be reached.
audit: .venv-audit/.installed
	.ci/audit .venv-audit/bin/pip-audit requirements.lock

# Another release of Kafka beside our tables and records: `make reference VERSION=4.5.0`.
reference: .venv/.installed-dev
	$(BIN)/python -m tests.reference $(VERSION) $(REFERENCE_ARGUMENTS)

# The pages with search, in build/docs. A warning is an error: a link without a target, a page without a place.
docs: .venv/.installed-docs
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning -c docs . build/docs
	@echo "file://$(CURDIR)/build/docs/index.html"

# A manual page for each command, in build/man.
man: .venv/.installed
	$(BIN)/python -m tests.docs.command_line build/man

# Sixty random texts for a reader who marks what has to be read twice; see CONTRIBUTING.md.
prose: .venv/.installed-dev
	@$(BIN)/python -m tests.prose --seed $(or $(SEED),0)

# docs/settings.md, from the table of settings; a test compares them.
settings: .venv/.installed
	$(BIN)/coordinator-server settings > docs/settings.md

# Pins what is installed here and in CI. LOCK_ARGUMENTS=--upgrade takes the newest of everything.
LOCK := $(BIN)/uv pip compile --quiet --universal --custom-compile-command "make lock" $(LOCK_ARGUMENTS)
lock: .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(LOCK) pyproject.toml --all-extras --group dev --output-file requirements.lock
	$(LOCK) pyproject.toml --extra pipeline --group test --resolution lowest-direct \
		--output-file requirements-lowest.lock

clean:
	rm -rf .venv .venv-lowest .venv-audit .venv-3.* .pipeline .profiles dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python .venv-lowest/bin/python .venv-audit/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
	$(PYTHON) -m venv $(@:/bin/python=)

# The stamps make the second run quick: nothing is installed until one of the two files changes.
INSTALL = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check

.venv/.installed: pyproject.toml requirements.lock | .venv/bin/python
	$(INSTALL) -c requirements.lock -e .
	@touch $@

.venv/.installed-pipeline: pyproject.toml requirements.lock | .venv/bin/python
	$(INSTALL) -c requirements.lock -e '.[pipeline,migrate]'
	@touch .venv/.installed $@

.venv/.installed-docs: pyproject.toml requirements.lock | .venv/bin/python
	$(INSTALL) -c requirements.lock -e '.[docs]'
	@touch .venv/.installed $@

.venv/.installed-dev: pyproject.toml requirements.lock | .venv/bin/python
	$(INSTALL) -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation -e .
	@touch .venv/.installed .venv/.installed-docs $@

.venv-lowest/.installed: pyproject.toml requirements-lowest.lock | .venv-lowest/bin/python
	$(INSTALL) -r requirements-lowest.lock -e .
	@touch $@

.venv-audit/.installed: | .venv-audit/bin/python
	$(INSTALL) 'pip-audit>=2.10,<3'
	@touch $@

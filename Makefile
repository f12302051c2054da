# Everything runs in .venv, which is created on first use. `make run` starts a broker.

# The first interpreter that is new enough; `make PYTHON=...` chooses another one.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
BIN := .venv/bin
LISTENER ?= 127.0.0.1:9092
DATA_DIR ?= .data
SEEDS ?= 0-999
PIPELINE_DIR ?= .pipeline
# More workers than processors, because tests with real clients mostly wait.
WORKERS ?= 4
# A test that exceeds `faulthandler_timeout` prints where it hangs, and fails.
PYTEST := $(BIN)/python -m pytest -o faulthandler_exit_on_timeout=true

# Tests start hundreds of processes. Without byte code on disk each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test nightly test-lowest test-pythons pipeline compose-test lint lock coverage print-covered sim fuzz-kafka mutations bench bench-keep profile \
	docs man prose settings reference audit clean

run: .venv/.installed
	@exec $(BIN)/coordinator-server serve --listener $(LISTENER) --data-dir $(DATA_DIR)

# The tests that every change must pass. One test or file: .venv/bin/pytest tests/...; see CONTRIBUTING.md.
# Tests that measure time or CPU run last, one by one. Exit status 5 of pytest means that no test was selected.
MARKERS ?= not nightly
test: .venv/.installed-dev
	@set -x; others=0; alone=0; \
	$(PYTEST) -n $(WORKERS) -m "$(MARKERS) and not alone" $(PYTEST_ARGUMENTS) || others=$$?; \
	$(PYTEST) -m "$(MARKERS) and alone" $(PYTEST_ARGUMENTS) || alone=$$?; \
	case $$others-$$alone in 0-0 | 0-5 | 5-0) ;; *) exit 1 ;; esac

# Tests that take too long for every change. SLICES=NAME runs one slice of it; see tests/nightly.py.
nightly: .venv/.installed-dev
	tests/compose/engine-up.sh
	$(BIN)/python -m tests.nightly $(SLICES)

# Tests with the lowest versions that pyproject.toml allows: the broker's packages, each client, the
# tables of Spark. Tests that use no library are left out: the group core, the rules of text and imports.
test-lowest: .venv-lowest/.installed
	.venv-lowest/bin/python -m pytest -q -n $(WORKERS) -m "not nightly and not alone" -p no:cacheprovider \
		--ignore=tests/unit/core/groups \
		--ignore=tests/unit/test_tidy.py --ignore=tests/unit/test_import_circles.py \
		tests/unit tests/codec tests/e2e/test_migration.py tests/testing/test_plugin.py \
		$(addprefix tests/clients/test_,aiokafka.py codecs.py confluent_kafka.py kafka_python.py) \
		$(addprefix tests/pipeline/,tables decode report test_files.py test_golden.py)

# The unit tests and the main client tests on every other installed version of Python.
test-pythons: .venv/.installed-dev
	WORKERS=$(WORKERS) tests/pythons.sh

# Run a small workload, compute the pipeline's tables from its log, and write a report; see docs/pipeline.md.
pipeline: .venv/.installed-pipeline
	@$(BIN)/python examples/offset_pipeline/demo.py $(PIPELINE_DIR)

# Consumers in containers. Starts a Docker engine if none runs (Debian, as root).
compose-test: .venv/.installed-dev
	tests/compose/engine-up.sh
	$(BIN)/python -m pytest -q --durations=5 $(PYTEST_ARGUMENTS) tests/compose

# The code that users run is also type-checked for macOS and Windows; the tests need POSIX.
INSTALLED := coordinator_server protocol storage pipeline examples
lint: .venv/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	for platform in darwin win32; do \
		$(BIN)/mypy --platform $$platform --cache-dir .mypy_cache/$$platform $(INSTALLED) || exit; \
	done
	$(BIN)/lint-imports

# The unit tests of the cores and of their coordinators must cover every branch of the cores.
COVERED := $(addprefix tests/unit/,core coordinator security)
coverage: .venv/.installed-dev
	$(BIN)/python -m coverage run -m pytest -q $(COVERED)
	$(BIN)/python -m coverage report

print-covered:
	@echo $(COVERED)

# `make sim SEEDS=0-999`; see docs/simulation.md.
sim: .venv/.installed-dev
	$(BIN)/python -m tests.sim --seeds $(SEEDS)

# Send random sequences of requests to this broker and to a Kafka; see docs/conformance.md.
# SEEDS=FIRST-LAST, THEMES=classic,share, FUZZ_ARGUMENTS="--seconds 100 --kafka HOST:PORT".
fuzz-kafka: .venv/.installed-dev
	$(BIN)/python -m tests.fuzz_kafka --seeds $(SEEDS) $(if $(THEMES),--themes $(THEMES)) $(FUZZ_ARGUMENTS)

mutations: .venv/.installed-dev
	$(BIN)/python -m tests.sim.mutations

# Compare CPU per operation with benchmarks/figures.json; exits with 1 if a figure has increased.
bench: .venv/.installed-dev
	$(BIN)/python -m benchmarks

# Write flame graphs of the broker under each kind of load to .profiles, with py-spy.
profile: .venv/.installed-dev
	@test -x $(BIN)/py-spy || $(BIN)/python -m pip install --quiet --disable-pip-version-check 'py-spy>=0.4,<1'
	$(BIN)/python -m benchmarks.profiling

# Store the figures of this run for later runs of `make bench`.
bench-keep: .venv/.installed-dev
	$(BIN)/python -m benchmarks --keep

# Check the locked dependencies for known vulnerabilities, if the database can be reached.
audit: .venv-audit/.installed
	.ci/audit .venv-audit/bin/pip-audit requirements.lock

# Compare another release of Kafka with our tables and recordings: `make reference VERSION=4.5.0`.
reference: .venv/.installed-dev
	$(BIN)/python -m tests.reference $(VERSION) $(REFERENCE_ARGUMENTS)

# The pages with search, in build/docs. A warning is an error: a link without a target, a page without a place.
docs: .venv/.installed-docs
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning -c docs . build/docs
	@echo "file://$(CURDIR)/build/docs/index.html"

# A manual page for each command, in build/man.
man: .venv/.installed
	$(BIN)/python -m tests.docs.command_line build/man

# Print sixty random texts, so that a reader can mark unclear ones; see CONTRIBUTING.md.
prose: .venv/.installed-dev
	@$(BIN)/python -m tests.prose --seed $(or $(SEED),0)

# docs/settings.md, from the table of settings; a test compares them.
settings: .venv/.installed
	$(BIN)/coordinator-server settings > docs/settings.md

# Pin the versions that are installed here and in CI. LOCK_ARGUMENTS=--upgrade selects the newest versions.
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

# Stamp files: packages are installed again only if pyproject.toml or the lock file changes.
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

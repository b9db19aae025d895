# Everything a clone needs: `make demo` and `make test`. All that they make stands in .venv and in
# the caches of the tools; the only thing outside the checkout is what scripts/system-packages says
# that it installs (as root on Debian or Ubuntu, and nowhere else).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCKS := requirements/dev.txt
DEMO := $(VENV)/.demo
CODE := $(wildcard hatch_build.py src tests benchmarks examples fuzz scripts/*.py)
TYPED := $(wildcard hatch_build.py src tests benchmarks scripts/*.py examples/people) $(filter-out fuzz/engine.py,$(wildcard fuzz/*.py))
PYTEST ?= $(BIN)/python -m pytest
PROCESSES ?= 6
TYPES_CACHE ?= .mypy_cache

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Tests that are compiled again each time, by each of the processes, take 8 seconds of each.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help console demo demo-check demo-docker docker-plugin test test-fast lint types imports tests conformance \
	coverage costs soak pauses lags mutants bench fuzz docs site locks release clean system-packages

help:
	@echo 'make demo         the people API behind Envoy, decided by Doorward; Ctrl-C ends it'
	@echo 'make demo-check   the same, ends by itself; fails unless every row of the matrix holds'
	@echo 'make demo-docker  a private dockerd behind the Docker plugin (root); ends by itself'
	@echo 'make console      the pages of the console (make demo and make test do it as well)'
	@echo 'make test         lint, types, import contract and all tests: what CI runs'
	@echo 'make test-fast    the tests that start nothing: three and a half minutes of CPU'
	@echo 'make costs        how many seconds of CPU each part of the tests takes'
	@echo 'make soak         what takes longer than a test may: an hour'
	@echo 'make pauses       the tests while all of their processes stop and go on: two hours at most'
	@echo 'make lags         the tests of servers while their threads stop for moments: half an hour'
	@echo 'make mutants      faults put into the code that keeps people out, and how many the tests notice'
	@echo 'make lint types imports tests conformance coverage bench fuzz docs site locks release clean'

$(STAMP): $(LOCKS) pyproject.toml scripts/system-packages
	@scripts/make-venv $(PYTHON) $(VENV) $(LOCKS)
	@touch $@

# The demo and the console need a part of that only: whoever tries it waits for no more, and not
# until modules are compiled that it never imports.
$(DEMO): requirements/demo.txt pyproject.toml scripts/system-packages
	@PIP_NO_COMPILE=1 scripts/make-venv $(PYTHON) $(VENV) requirements/demo.txt
	@touch $@

system-packages:
	@scripts/system-packages

# The pages of the console, from console/ and npm packages by their lock; Node is a package of Python.
CONSOLE := src/doorward/console/static/console.js

console: $(CONSOLE)

$(CONSOLE): $(DEMO) $(wildcard console/src/* console/examples/*/*) console/build.mjs console/package-lock.json \
		scripts/build_console.py
	@$(BIN)/python scripts/build_console.py
	@touch $@

demo: $(DEMO) $(CONSOLE)
	@$(BIN)/python examples/people/demo.py

demo-check: $(DEMO)
	@$(BIN)/python examples/people/demo.py --check

demo-docker: $(STAMP)
	@WANTED="docker.io:dockerd docker-cli:docker busybox-static:busybox" scripts/system-packages
	@$(BIN)/python examples/docker/demo.py

# A root file system of this environment with config.json, for `docker plugin create`.
docker-plugin: $(STAMP)
	@rm -rf build/docker-plugin
	@$(BIN)/python scripts/docker_plugin.py build/docker-plugin

# Packages of two kinds at once, since both are waited for; then types, which take a minute of one
# core, beside the tests, which wait for half of their time. Where one fails, the other ends.
test:
	@$(MAKE) --no-print-directory -j 2 system-packages $(STAMP)
	@$(MAKE) --no-print-directory $(CONSOLE)
	@$(MAKE) --no-print-directory -j 2 lint imports types tests

lint: $(STAMP)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(STAMP)
	$(BIN)/mypy --cache-dir=$(TYPES_CACHE) $(TYPED)

imports: $(STAMP)
	$(BIN)/lint-imports

# What tests start imports the package: compiled once, and not by each where the environment says
# that Python writes no bytecode.
COMPILE := $(BIN)/python -m compileall -q -j 2 src

# Three processes for each of two cores, since much of what the tests take is waiting for what they
# start; one takes up to 1.6 GB. What calls make in a test is not a part of this one.
tests: $(STAMP) $(CONSOLE)
	@$(COMPILE)
	MAKEFLAGS= $(PYTEST) --processes $(PROCESSES) tests

# Writes what the tests of each file take to tests/seconds.json, by which the costliest begin first.
costs: $(STAMP) $(CONSOLE)
	@$(COMPILE)
	$(PYTEST) -q -p tests.costs --processes $(PROCESSES) tests

# One process's own work: nothing that a test starts, and no long comparison.
test-fast: $(STAMP) $(CONSOLE)
	@$(COMPILE)
	$(PYTEST) -q --processes 2 -m 'not system and not long' tests

# The long forms of what `make test` does in seconds, and the image, which needs package registries.
soak: $(STAMP) $(CONSOLE)
	@WANTED="debootstrap:debootstrap docker.io:dockerd busybox-static:busybox" scripts/system-packages
	$(PYTEST) --processes 2 -m 'soak or property' tests
	DOORWARD_ROUNDS=all $(PYTEST) --processes 2 tests/rego/engine/test_properties.py tests/rego/partial tests/oracle \
		tests/cli/test_bundle_server.py tests/filters/test_django.py tests/search/proofs tests/test_patterns.py
	DOORWARD_ROW_COMPARISONS=20000 DOORWARD_FILTERS=400 DOORWARD_PARTIAL=all DOORWARD_PARTIAL_EXAMPLES=2000 \
		$(PYTEST) --processes 2 tests/filters tests/rego/partial
	$(BIN)/python fuzz/proofs.py --programs 10000

# Once a release: every process of the tests stops and goes on, at moments that SEED chooses; with
# APART=--apart some of them do.
pauses: $(STAMP) $(CONSOLE)
	@$(COMPILE)
	$(BIN)/python scripts/under_pauses.py --seed $(or $(SEED),1) --seconds 7200 $(APART) -- --processes 4 tests

# Once a release: threads of the tests stop for moments, at calls that SEED chooses.
lags: $(STAMP) $(CONSOLE)
	@$(COMPILE)
	DOORWARD_LAGS=$(or $(SEED),1) $(PYTEST) -q --processes 2 -m system -p tests.lags tests

# By room, or some: make mutants ROOMS='tokens bundles'
mutants: $(STAMP)
	$(BIN)/python scripts/mutants.py $(ROOMS)

conformance: $(STAMP)
	$(PYTEST) tests/conformance

# Every line and branch of the language and of the HTTP/2 core. Left out is what asks the same again,
# in other ways.
# And what coverage cannot trace: a file name that is not Unicode.
REPEATING := tests/rego/engine/test_properties.py tests/rego/codegen/test_isolation.py \
	tests/rego/codegen/test_names.py::test_a_policy_may_have_any_file_name \
	tests/rego/analysis/test_golden_errors.py::test_modules_and_queries_compile_or_fail_as_in_opa

MEASURED := $(BIN)/coverage run --parallel-mode --source=src/doorward/rego,src/doorward/transport/http2 \
	-m pytest -q -p tests.measured -p no:cacheprovider

# Rooms that use parts of the language as nothing else does; not what they start, nor a search that
# finds less in its time under the tracer.
USERS := tests/bundles tests/console tests/decision_log tests/filters tests/pdp tests/search
OTHER_USERS := tests/cli tests/rest

# Two processes, about equally long.
coverage: $(STAMP)
	$(BIN)/coverage erase
	@{ $(MEASURED) tests/conformance && $(MEASURED) -m 'not system' $(USERS) \
		--deselect=tests/search/test_docker_changes.py; } & \
	$(MEASURED) tests/rego tests/transport/http2 tests/transport/grpc \
		$(REPEATING:%=--deselect=%) && $(MEASURED) -m 'not system' $(OTHER_USERS); \
		own=$$?; wait $$! && exit $$own
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --skip-covered --show-missing --fail-under=100

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

# Five minutes in all; longer by hand: .venv/bin/python fuzz/engine.py parser --seconds 3600
fuzz: $(STAMP)
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet \
		--no-deps --require-hashes --only-binary :all: -r requirements/fuzz.txt
	@for target in lexer parser evaluator http2; do \
		$(BIN)/python fuzz/engine.py $$target --seconds 20 || exit 1; done
	@for fuzzer in differential newest builtins tokens certificates schemas yaml_texts long_calls \
		graphql_documents plain_calls keys multipart request residuals; do \
		$(BIN)/python fuzz/$$fuzzer.py --seconds 20 || exit 1; done

docs: $(STAMP)
	$(BIN)/python scripts/builtin_table.py
	$(BIN)/python scripts/configuration_page.py
	$(BIN)/python scripts/differences_page.py
	$(BIN)/python scripts/opa_page.py
	$(BIN)/python scripts/reference_pages.py
	$(BIN)/python scripts/record_examples.py

# The docs site, in build/site (`python -m http.server -d build/site` shows it) and under Help of the
# console. Needs the generator of the site and nothing else: its own environment, by its own lock.
SITE := build/site-tools
HELP := src/doorward/console/help

$(SITE)/.installed: requirements/site.txt
	@$(PYTHON) -m venv --clear $(SITE)
	@$(SITE)/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r requirements/site.txt
	@touch $@

site: $(SITE)/.installed
	$(SITE)/bin/python scripts/docs_site.py $(HELP)

# VERSION=0.2.0: version, changelog, commit and tag, then the files in dist/ (scripts/release.py). Nothing
# is pushed or uploaded.
RELEASE := build/release

$(RELEASE)/.installed: requirements/release.txt
	@$(PYTHON) -m venv --clear $(RELEASE)
	@$(RELEASE)/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r requirements/release.txt
	@touch $@

release: $(CONSOLE) site $(RELEASE)/.installed
	@$(RELEASE)/bin/python scripts/release.py $(VERSION)

# The locks are made again only when somebody asks for it; CONTRIBUTING.md says how to read the diff.
locks: $(STAMP)
	scripts/make-locks $(BIN)/uv

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist site .coverage
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

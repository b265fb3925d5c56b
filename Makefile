# A machine needs Python 3.11 or newer, pip and make; everything else goes into $(VENV).
#
#   make demo                                          the demo of example_project, on SQLite
#   make admin                                         its tasks, a worker and its cluster in the admin
#   make test                                          on every database that can be had
#   make test PYTEST_ARGS='-k lease -x'
#   make test JOBS=0                                   in one process
#   SKIPPER_TEST_DATABASES=sqlite make test            quickly
#   make chaos                                         real workers under faults, on every database
#   make chaos CHAOS_ARGS=--short                      in small: four
#   make soak                                          two million tasks under churn: 35 minutes
#   make test VENV=.venv-5.2 DJANGO='Django~=5.2.0'    another Django beside it

PYTHON ?= python3
VENV ?= .venv
DJANGO ?=
PYTEST_ARGS ?=
# Processes that share the tests, each with servers of its own. Most tests wait for others.
JOBS ?= 4
BENCH_ARGS ?=
CHAOS_ARGS ?=
SOAK_ARGS ?=

PY = $(VENV)/bin/python
PIP = $(PY) -m pip --disable-pip-version-check --quiet
RUN_STAMP = $(VENV)/.run-installed
TEST_STAMP = $(VENV)/.test-installed
LINT_STAMP = $(VENV)/.lint-installed
DOCS_STAMP = $(VENV)/.docs-installed

.PHONY: test install demo admin lint format types imports migrations bench chaos soak docs clean
.DELETE_ON_ERROR:

test: $(TEST_STAMP)
	$(PY) -m pytest --numprocesses $(JOBS) --dist worksteal $(PYTEST_ARGS)

install: $(TEST_STAMP)

demo: $(RUN_STAMP)
	$(PY) -m example_project.demo

admin: $(RUN_STAMP)
	$(PY) -m example_project.serve

lint: $(LINT_STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: $(LINT_STAMP)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

types: $(LINT_STAMP)
	$(PY) -m mypy

imports: $(LINT_STAMP)
	$(VENV)/bin/lint-imports

migrations: $(TEST_STAMP)
	DJANGO_SETTINGS_MODULE=tests.settings $(PY) -m django makemigrations --check --dry-run skipper_django

bench: $(TEST_STAMP)
	$(PY) -m benchmarks $(BENCH_ARGS)

chaos: $(TEST_STAMP)
	$(PY) -m pytest -c chaos/pytest.ini chaos $(CHAOS_ARGS)

soak: $(TEST_STAMP)
	$(PY) -m chaos.soak $(SOAK_ARGS)

docs: $(DOCS_STAMP)
	$(PY) -m mkdocs build --strict --quiet --site-dir build/docs

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# Dependency groups need pip 25.1.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'

$(RUN_STAMP): pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable . $(if $(DJANGO),'$(DJANGO)')
	@touch $@

$(TEST_STAMP): pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable . --group test $(if $(DJANGO),'$(DJANGO)')
	@$(call driver,mysql,MySQL and MariaDB: mysqlclient needs a C compiler$(comma) pkg-config and the client headers)
	@$(call driver,postgresql,PostgreSQL: psycopg cannot be installed)
	@$(call driver,prometheus,metrics: django-prometheus cannot be installed)
	@touch $@

$(LINT_STAMP): pyproject.toml $(TEST_STAMP)
	$(PIP) install --group lint
	@touch $@

$(DOCS_STAMP): pyproject.toml | $(VENV)/bin/python
	$(PIP) install --group docs
	@touch $@

comma := ,
define driver
$(PIP) install --editable '.[$(1)]' $(if $(DJANGO),'$(DJANGO)') >$(VENV)/$(1).log 2>&1 || \
	echo "WARNING: the tests go on without $(2) (see $(VENV)/$(1).log, then make clean)"
endef

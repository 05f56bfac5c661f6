# Everything happens inside this checkout: .venv has the environment, .cache what was downloaded, build the results.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := $(CURDIR)/.cache
WHEELS := $(CACHE)/wheels
INSTALLED := $(VENV)/.installed
DOCS_VENV := build/docs-venv
DOCS_INSTALLED := $(DOCS_VENV)/.installed
export COSPARK_CACHE ?= $(CACHE)
export PIP_NO_CACHE_DIR := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Hundreds of processes import the package: Python compiles it once, even where the environment forbids it.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest

.PHONY: help install set-up demo test thorough compat unit simulate simulate-long simulate-detached explore peers integration system pictures docs lint format bench lake compare-designs coverage soak clean

help:  ## Show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: set-up $(INSTALLED)  ## Make .venv with everything in it

set-up:
	@PYTHON=$(PYTHON) scripts/set-up $(if $(filter test thorough system pictures,$(MAKECMDGOALS)),browser) $(if $(or $(filter thorough,$(MAKECMDGOALS)),$(filter postgresql,$(DATABASE))),postgresql)

$(INSTALLED): pyproject.toml constraints.txt constraints.sha256 | set-up
	$(PYTHON) -m venv $(VENV)
	@scripts/install $(BIN)/python $(WHEELS)
	@touch $@

demo: install  ## The main job: Spark work on real data over several Airflow workers (KEEP=1 leaves Airflow up; DAGS=folder: with DAGs of your own; GROUP_PROTOCOL=connect: a declarative group; SPARK=connect: on a Spark Connect server)
	$(BIN)/python -m demo --output build/demo $(if $(KEEP),--keep) $(if $(DAGS),--dags '$(DAGS)') $(if $(GROUP_PROTOCOL),--group-protocol $(GROUP_PROTOCOL)) $(if $(SPARK),--spark $(SPARK))

test: install  ## Everything that CI runs; as root on Debian and Ubuntu it installs Chromium if there is none
	@$(BIN)/python scripts/run-tests

thorough: install coverage docs  ## What takes too long for each run of CI: coverage, the documentation site, and a broker, Airflow (on PostgreSQL, too), a browser and Spark under more load and faults
	@$(BIN)/python scripts/fill-cache thorough
	$(PYTEST) -m thorough tests/simulation tests/explore tests/integration tests/system
	COSPARK_DATABASE=postgresql $(PYTEST) -m "not thorough" tests/system
	COSPARK_EXAMPLES=4 $(PYTEST) tests/peers

compat:  ## On each combination of Airflow, PySpark and Python in the README; goes on where it stopped (ONLY=3.10, AGAIN=1, LEAVE_OUT="3.13 constraints")
	@$(PYTHON) scripts/run-compat $(if $(ONLY),--only $(ONLY)) $(if $(AGAIN),--again) $(if $(LEAVE_OUT),--leave-out $(LEAVE_OUT))

unit: install  ## Fast tests: values in, values out (make test also runs the slow ones of them)
	$(PYTEST) -m "not slow" tests/unit

coverage: install  ## The unit tests again, watched line by line, which takes as long again: how much of the code do they reach
	COSPARK_EXAMPLES=4 $(PYTEST) tests/unit --cov --cov-report=term

simulate: install  ## Many members in virtual time, with faults: SEEDS=n of each plan, or PLAN=name SEED=n again
	@PYTHONPATH=tests $(BIN)/python -m simulation.run $(if $(PLAN),--plan $(PLAN)) $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS))

simulate-long: install  ## The same for hours, beside other work: goes on where it stopped (HISTORIES=n in all, REPORT=1 tells how far)
	@PYTHONPATH=tests nice -n 19 $(BIN)/python -m simulation.long_run $(if $(HISTORIES),--histories $(HISTORIES)) $(if $(REPORT),--report)

simulate-detached: install  ## Detached streams on two simulated servers, with faults: HISTORIES=n from a random seed, or from FIRST=seed
	@PYTHONPATH=tests nice -n 19 $(BIN)/python -m simulation.detached.run $(if $(HISTORIES),--histories $(HISTORIES)) $(if $(FIRST),--first $(FIRST))

explore: install  ## Every order of messages and faults in a small group: SCOPE=name for one of tests/explore/scopes.py
	@PYTHONPATH=tests $(BIN)/python -m explore.run $(if $(SCOPE),--scope $(SCOPE))

peers: install  ## Against Java Kafka Connect's own classes
	$(PYTEST) tests/peers

integration: install  ## A real broker, a real Spark
	$(PYTEST) tests/integration

system: install  ## A real Airflow (DATABASE=postgresql: with its metadata there, instead of SQLite)
	COSPARK_DATABASE=$(DATABASE) $(PYTEST) tests/system

pictures: install  ## The pictures of the page in docs/images, made by its tests
	COSPARK_PICTURES=docs/images $(PYTEST) tests/system/test_page.py tests/system/test_page_detached.py

$(DOCS_INSTALLED): pyproject.toml constraints.txt constraints.sha256
	$(PYTHON) -m venv $(DOCS_VENV)
	@wheels=$$(scripts/fetch-wheels $(DOCS_VENV)/bin/python $(WHEELS)); \
	extra=$$($(DOCS_VENV)/bin/python scripts/extra docs); \
	$(DOCS_VENV)/bin/python -m pip install --quiet --no-index --find-links $$wheels -c constraints.txt -r <(echo "$$extra")
	@touch $@

docs: $(DOCS_INSTALLED)  ## The documentation site, in build/docs; a dead link is an error
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict
	@echo "Open build/docs/index.html; to search in it, serve it: python3 -m http.server --directory build/docs"

lint: install  ## Style, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	scripts/check-types
	$(BIN)/lint-imports

format: install  ## Let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install  ## Benchmarks, as ratios against a peer in the same run
	$(BIN)/python -m benchmarks

lake: install  ## What the benchmark hundred_topics needs beside .venv: a PySpark with a Kafka source, and Iceberg (600 MB)
	scripts/fetch-lake $(BIN)/python

soak: install  ## Under real Spark work: thirty rolling bounces of three workers, forty kills in a declarative group (about twenty minutes)
	BOUNCES=30 KILLS=40 $(PYTEST) tests/integration/test_faults_bounces.py tests/integration/test_faults_kills.py

compare-designs: install  ## What eager, each resolution policy and learners cost, in a simulated group (SEEDS=5; DOCS=1 writes it into docs/policies.md, too)
	PYTHONPATH=tests $(BIN)/python -m simulation.designs $(if $(SEEDS),--seeds $(SEEDS)) $(if $(DOCS),--docs)

clean:  ## Remove the environment and the results, but not what was downloaded
	rm -rf $(VENV) build dist *.egg-info

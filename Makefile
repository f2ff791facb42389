# Telemachus: `make demo` shows it at work, `make test` proves it. Each sets up what it needs.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PORT ?= 8000
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
REQUIREMENTS := requirements/base.txt requirements/demo.txt requirements/test.txt
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo up test lint chaos reproduce lock clean

help: ## Show the targets.
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: $(STAMP) ## Make .venv and install the locked requirements into it.

$(STAMP): $(REQUIREMENTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Telemachus needs Python 3.11 or newer: set PYTHON=python3.11 or so."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@# a module is compiled when it is first imported; most never are
	$(RUN) -m pip install --quiet --no-compile --disable-pip-version-check --require-hashes \
		$(foreach file,$(REQUIREMENTS),-r $(file))
	@touch $@

demo: setup ## Start everything and run 150 real translations; EXIT=1 ends after the report.
	$(RUN) manage.py demo --port $(PORT) $(if $(EXIT),--exit)

up: setup ## Start everything for your own jobs.
	$(RUN) manage.py up --port $(PORT)

lint: setup ## Style, types, import contracts, migrations.
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/mypy
	$(RUN) tools/check_settings.py

test: setup browser ## Everything that must hold: lint, tests, coverage, the demo.
	PYTEST="$(PYTEST)" tools/test.sh

.PHONY: browser
browser:
ifeq ($(CHROMIUM),)
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -y -qq chromium >/dev/null; \
	else \
		echo "Chromium is not installed: the browser tests will be left out."; \
	fi
endif

chaos: setup ## Ten minutes of kills, freezes and restarts under 600 jobs; prints what held.
	CHAOS_SECONDS=$(or $(SECONDS),600) CHAOS_JOBS=$(or $(JOBS),600) $(RUN) -m pytest -s -q tests/chaos

reproduce: setup ## Replay published traces and print our figures beside the published ones.
	$(RUN) -m bench.reproduce

lock: ## Resolve requirements/*.in into hashed lock files without addresses (needs uv).
	cd requirements && for name in base demo test; do \
		uv pip compile --quiet --no-header --universal --python-version 3.11 --generate-hashes \
			$$name.in -o $$name.txt; done

clean: ## Stop what runs here and remove .venv, var and caches.
	-@[ ! -x $(RUN) ] || for home in var var/test var/test-demo; do \
		[ ! -d $$home ] || TELEMACHUS_HOME=$$home $(RUN) manage.py stop; done
	rm -rf $(VENV) var .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf .coverage .coverage.* htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

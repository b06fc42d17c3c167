# `make` lists the targets. The virtual environment is built on first use.

VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
# Modules are compiled when they are first imported: to compile all of them would take half a minute.
# So Python must be allowed to keep them, or each of the many processes of the tests compiles again.
export PYTHONDONTWRITEBYTECODE :=
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile \
	-c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test slow fuzz docs bench lint format chromium

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.package  ## fit and evaluate by command line, then compare values of α
	@$(BIN)/python examples/demo.py

test: lint chromium  ## lint, check types, run all tests and doctests except the slow ones
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

slow: $(VENV)/.dev  ## run the slow tests
	@$(PIP_INSTALL) -e ".[dask,ray]"
	$(BIN)/python -m pytest -q -m slow

fuzz: $(VENV)/.dev  ## read thousands of mutated model files and tables, for minutes
	@for file in tests/fuzz/fuzz_*.py; do PYTHONPATH=tests $(BIN)/python $$file || exit 1; done

docs: $(VENV)/.docs  ## build the documentation into site/, without the network
	@rm -rf site
	@$(BIN)/python -m zensical build --clean --strict
	@echo "Read site/index.html, or serve it to search: $(BIN)/python -m http.server -d site"

bench: $(BENCH)/.package  ## time bbalpha against its peers and write docs/benchmarks.md
	$(BENCH)/bin/python benchmarks

# The tests of the explorer's page need a browser; without one they are skipped.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
		command -v $$name > /dev/null && exit 0; \
	done; \
	[ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null || exit 0; \
	echo "Installing Chromium ..."; \
	{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y chromium; } \
		> /dev/null 2>&1 || echo "Chromium could not be installed; the tests that need it are skipped."

lint: $(VENV)/.dev  ## ruff and basedpyright, changing nothing
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/basedpyright

format: $(VENV)/.dev  ## let ruff fix and format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

$(VENV)/.package: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing bbalpha into $(VENV) ..."
	@$(PIP_INSTALL) -e ".[cli]"
	@touch $@

$(VENV)/.dev: paper/pyproject.toml $(VENV)/.package
	@echo "Installing the development tools into $(VENV) ..."
	@$(PIP_INSTALL) -e ".[cli,dev,docs]" -e paper
	@touch $@

$(VENV)/.docs: $(VENV)/.package
	@echo "Installing the documentation tools into $(VENV) ..."
	@$(PIP_INSTALL) -e ".[cli,docs]"
	@touch $@

$(BENCH)/.package: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing bbalpha and its peers into $(BENCH) ..."
	@$(BIN)/python -m venv $(BENCH)
	@$(BENCH)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt torch
	@$(BENCH)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt \
		-e ".[bench,cli]"
	@# NGBoost works with pandas 3, but lifelines, which it imports, does not allow it. CatBoost
	@# needs the packages for its plots only there.
	@$(BENCH)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt \
		--no-deps ngboost lifelines catboost six
	@touch $@

$(BIN)/python:
	@for python in $(PYTHON) python3.11 python3; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			exec $$python -m venv $(VENV); \
		fi; \
	done; \
	echo "bbalpha needs Python 3.11 or newer; found $$(python3 --version 2>&1)." \
		"Name one with: make PYTHON=/path/to/python" >&2; \
	exit 1

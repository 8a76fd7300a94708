.PHONY: demo test docs lint bench chaos release clean help
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
# of .venv: with everything, or with what the demo needs
READY := .venv/.ready
TRAIN := .venv/.train

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/make \1\t\2/'

PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile

# $(call install,LOCK,EXTRA): into .venv, by hashes where pip has a file for each
define install
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "feddcd needs Python 3.11 or newer; set PYTHON=path/to/python3.11"; exit 1; }
@echo "setting up .venv for feddcd[$(2)] (once, a minute or two) ..."
@$(PYTHON) -m venv .venv
@$(PIP) --no-deps --require-hashes -r $(1) 2> .venv/pip.log && $(PIP) --no-deps --no-build-isolation -e . || { \
	if grep -q 'DO NOT MATCH THE HASHES' .venv/pip.log; then cat .venv/pip.log; exit 1; fi; \
	echo "pip cannot check hashes here (.venv/pip.log says why): installing by versions alone"; \
	$(PIP) -c constraints.txt -e '.[$(2)]'; }
@$(BIN)/python -m compileall -qq -j 0 .venv/lib src || true  # on all cores, which pip does on one
@touch $@
endef

$(READY): pyproject.toml constraints.txt requirements.lock
	$(call install,requirements.lock,dev)

$(TRAIN): pyproject.toml constraints.txt requirements-train.lock
	$(call install,requirements-train.lock,train)

demo: $(if $(wildcard $(READY)),$(READY),$(TRAIN))  ## eight methods race on real data: a table, a picture, a report
	@$(BIN)/feddcd demo --out demo

# a worker for each of two cores, and one for the tests that wait for processes
PYTEST := $(BIN)/pytest -n 3 --dist worksteal

test: $(READY)  ## all tests
	@$(PYTEST)

docs: $(READY)  ## the documentation as a site, in build/site
	@$(BIN)/mkdocs build --strict

lint: $(READY)  ## style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright

bench: $(READY)  ## speed against plain NumPy, as ratios of one run
	@$(BIN)/python benchmarks/rounds.py

chaos: $(READY)  ## all pairs of crash points, 100,000 faults, mutants, many kills (hours)
	@$(PYTEST) -m chaos

RELEASE := build/release/bin

release:  ## source and wheel in dist/, and a bill of materials of what a site installs
	@rm -rf dist && $(PYTHON) -m venv build/release
	@$(RELEASE)/pip --disable-pip-version-check install --quiet build==1.6.1 cyclonedx-bom==7.5.0 twine==7.0.0
	@$(RELEASE)/python -m build --outdir dist .
	@$(RELEASE)/cyclonedx-py requirements requirements-site.lock --output-reproducible --of JSON -o dist/feddcd-site.cdx.json
	@$(RELEASE)/python tools/materials.py dist
	@$(RELEASE)/twine check --strict dist/*.whl dist/*.tar.gz

clean:  ## remove the environment and what the demo wrote
	rm -rf .venv demo build dist .pytest_cache .ruff_cache

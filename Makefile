.PHONY: demo test docs lint bench chaos clean help
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/make \1\t\2/'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "feddcd needs Python 3.11 or newer; set PYTHON=path/to/python3.11"; exit 1; }
	@echo "setting up .venv (once, a minute or two) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

demo: $(READY)  ## seven methods race on real data: a table, a picture, a report
	@$(BIN)/feddcd demo --out demo

# two workers, one core and one thread each; programs are compiled quickly rather than well, and kept
KEPT := JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.venv/xla JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
ONE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 FEDDCD_THREADS=1 FEDDCD_CACHE=$(CURDIR)/.venv/data $(KEPT)
FLAGS := --xla_cpu_multi_thread_eigen=false --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1
QUICK := $(ONE) XLA_FLAGS="$(FLAGS) --xla_backend_optimization_level=0"
BETTER := $(ONE) XLA_FLAGS="$(FLAGS) --xla_backend_optimization_level=1"
PYTEST := $(BIN)/pytest -n 2 --dist worksteal
PINNED := FEDDCD_TEST_PIN=1 $(PYTEST)
# these compute more than they compile; the longest test is in the first
LONG := tests/test_paper_data.py tests/test_real_data.py tests/test_theory.py

FLOWER := tests/test_flower.py

test: $(READY)  ## all tests
	@echo "real processes (in the background, mostly waiting), then everything else"
	@$(QUICK) $(PYTEST) $(FLOWER) > .flower.log 2>&1 & flower=$$!; \
	$(BETTER) $(PINNED) $(LONG) && $(QUICK) $(PINNED) $(LONG:%=--ignore %) --ignore $(FLOWER) \
	|| { kill $$flower; exit 1; }; \
	wait $$flower; code=$$?; cat .flower.log; exit $$code

docs: $(READY)  ## the documentation as a site, in build/site
	@$(BIN)/mkdocs build --strict

lint: $(READY)  ## style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright

bench: $(READY)  ## speed against plain NumPy, as ratios of one run
	@$(BIN)/python benchmarks/rounds.py

chaos: $(READY)  ## the durable protocol under all pairs of crash points and 100,000 faults (an hour)
	@FEDDCD_CRASH_PAIRS=all FEDDCD_FAULTS=100000 FEDDCD_HISTORIES=1000 $(QUICK) $(PINNED) tests/test_crashes.py tests/test_protocol.py tests/test_protocol_machine.py
	@FEDDCD_FLOWER=long $(BIN)/pytest tests/test_flower.py

clean:  ## remove the environment and what the demo wrote
	rm -rf .venv demo build .pytest_cache .ruff_cache

# Everything runs in .venv, which sets itself up; `make help` lists the targets.

# The Python that makes .venv: the first that is 3.11 or newer. `make PYTHON=... demo` takes another one.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	"$$name" -c "$(NEW_ENOUGH)" 2>/dev/null && echo "$$name" && exit; done; echo python3)
# Processes that run tests side by side.
JOBS ?= 2
# How many engines `make chaos` kills, and what its moments are drawn from.
RUNS ?= 300
SEED ?= 1

BIN := .venv/bin
SETUP := .ci/environment.py
RUNTIME := .venv/.runtime
DEVELOPMENT := .venv/.development
BENCHMARK := .venv/.benchmark
BROWSER := .venv/.browser
DEMO := demo

# The tools must see this tree and nothing of the caller's Python.
unexport PYTHONPATH PYTHONHOME
ifneq ($(CI),)
export NO_COLOR := 1
unexport FORCE_COLOR CLICOLOR_FORCE PY_COLORS MYPY_FORCE_COLOR
MYPY_OPTIONS := --no-color-output
PYTEST_OPTIONS := --color=no
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint bench chaos docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-7s %s\n", $$1, $$2}' Makefile

demo: $(RUNTIME) ## run a real loop on this computer until it converges (under two minutes, set-up included)
	@mkdir -p $(DEMO) && find examples/convergence -maxdepth 1 -type f -exec cp {} $(DEMO) ';'
	cd $(DEMO) && ../$(BIN)/weft run workflow.yaml --on machines.yaml --fresh --report report.html
	@echo
	@echo "In iteration 2 the machine attic is slow: who falls behind there goes on elsewhere, from its restart file."
	@echo "Where to look: open $(CURDIR)/$(DEMO)/report.html in a browser; the result is $(DEMO)/density.txt."
	@echo "The same command without --fresh, in $(DEMO)/, finds everything done; 'weft explain TASK' says why it is where it is."

test: lint $(BROWSER) ## lint, then every test (under ten minutes)
	$(BIN)/python -m pytest -n $(JOBS) $(PYTEST_OPTIONS)

lint: $(DEVELOPMENT) ## style, types and the layers of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(MYPY_OPTIONS)
	$(BIN)/lint-imports --no-cache

bench: $(BENCHMARK) ## run the benchmarks: one JSON line each
	@set -e; for file in benchmarks/[a-z]*.py; do $(BIN)/python "$$file"; done

chaos: $(DEVELOPMENT) ## cut RUNS=300 runs of the engine short at random moments, drawn from SEED=1 (some minutes)
	cd tests && ../$(BIN)/python -m chaos.long_form --kills $(RUNS) --seed $(SEED)

docs: $(DEVELOPMENT) ## build the documentation into site/
	$(BIN)/mkdocs build --strict --quiet --site-dir site
	@echo "The documentation: open $(CURDIR)/site/index.html in a browser."

clean: ## remove everything that was made, .venv too
	rm -rf .venv .venv.lock build dist site src/weft.egg-info $(DEMO)
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +

$(RUNTIME): requirements.txt pyproject.toml $(SETUP)
	@$(PYTHON) $(SETUP) $@ requirements.txt

$(BROWSER): $(DEVELOPMENT)
	@$(PYTHON) .ci/browser.py $@

$(BENCHMARK): requirements.txt requirements-dev.txt requirements-benchmark.txt pyproject.toml $(SETUP)
	@$(PYTHON) $(SETUP) $@ requirements-benchmark.txt

$(DEVELOPMENT): requirements.txt requirements-dev.txt pyproject.toml $(SETUP)
	@$(PYTHON) $(SETUP) $@ requirements-dev.txt

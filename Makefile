# All targets use .venv and create it when needed; `make help` lists the targets.

# The Python that creates .venv: the first that is 3.11 or newer. `make PYTHON=... demo` selects another one.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	"$$name" -c "$(NEW_ENOUGH)" 2>/dev/null && echo "$$name" && exit; done; echo python3)
# Number of parallel test processes: twice the cores of a small computer, because many tests wait for services.
JOBS ?= 4
# Number of faults that `make chaos` causes, and the seed of their moments.
FAULTS ?= 10000
SEED ?= 1
# Number of examples per property test of `make properties`.
EXAMPLES ?= 1000
MINUTES ?= 10

BIN := .venv/bin
SETUP := .ci/environment.py
RUNTIME := .venv/.runtime
DEVELOPMENT := .venv/.development
BENCHMARK := .venv/.benchmark
BROWSER := .venv/.browser
BUBBLEWRAP := .venv/.bubblewrap
COMPILER := .venv/.compiler
SHELLS := .venv/.shells
SSH_SERVER := .venv/.ssh_server
SLURM := .venv/.slurm
DEMO := demo

# The tools must use this tree and ignore the caller's Python settings. Without bytecode files every process that
# a test starts would compile all modules anew.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
ifneq ($(CI),)
export NO_COLOR := 1
unexport FORCE_COLOR CLICOLOR_FORCE PY_COLORS MYPY_FORCE_COLOR
MYPY_OPTIONS := --no-color-output
PYTEST_OPTIONS := --color=no
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint bench chaos fuzz properties coverage docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

demo: $(RUNTIME) ## run a real loop on this computer until it converges (under two minutes, set-up included)
	@mkdir -p $(DEMO) && find examples/convergence -maxdepth 1 -type f -exec cp {} $(DEMO) ';'
	cd $(DEMO) && ../$(BIN)/weft run workflow.yaml --on machines.yaml --fresh --report report.html
	@echo
	@echo "In iteration 2 the machine attic is slow: a task that violates its contract there migrates with its restart file."
	@echo "Where to look: open $(CURDIR)/$(DEMO)/report.html in a browser; the result is $(DEMO)/density.txt."
	@echo "The same command without --fresh, in $(DEMO)/, reuses all results; 'weft explain TASK' shows the decisions about a task."

test: lint $(BROWSER) $(BUBBLEWRAP) $(COMPILER) $(SHELLS) $(SSH_SERVER) $(SLURM) ## lint, then every test (under fifteen minutes)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not real_time" $(PYTEST_OPTIONS)
	$(BIN)/python -m pytest -m real_time -rs $(PYTEST_OPTIONS)

lint: $(DEVELOPMENT) ## style, types and import contracts; style of scripts, style sheets and templates
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(MYPY_OPTIONS)
	$(BIN)/lint-imports --no-cache
	$(BIN)/biome check --error-on-warnings
	$(BIN)/djlint --quiet --lint --check src

bench: $(BENCHMARK) ## run the benchmarks: one JSON line each
	@set -e; for file in $(filter-out %/compare.py %/measurement.py %/masters.py,$(wildcard benchmarks/*.py)); do $(BIN)/python "$$file"; done

chaos: $(COMPILER) ## cause FAULTS=10000 faults (kills, power cuts, failing calls, rollbacks), drawn from SEED=1; with BACKEND=slurm, ssh or dask kill the engine 50 times
ifneq ($(BACKEND),)
	WEFT_KILLS=50 $(BIN)/python -m pytest $(PYTEST_OPTIONS) tests/backends/$(BACKEND) -k engine_killed
else
	cd tests && ../$(BIN)/python -m chaos.long_form --faults $(FAULTS) --seed $(SEED)
endif

fuzz: $(DEVELOPMENT) ## fuzz every reader for MINUTES=10, or with CASES=1000000 cases, guided by coverage; add new inputs to the corpus
	cd tests && ../$(BIN)/python -m fuzz.long_form $(if $(CASES),--total $(CASES),--minutes $(MINUTES)) --seed $(SEED) --grow

properties: $(DEVELOPMENT) $(SHELLS) ## the property tests with EXAMPLES=1000 examples each
	WEFT_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n $(JOBS) $(PYTEST_OPTIONS) -m hypothesis

coverage: $(BROWSER) $(BUBBLEWRAP) $(COMPILER) $(SHELLS) $(SSH_SERVER) $(SLURM) ## the tests with line coverage of src/weft, as a table and as htmlcov/
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not real_time" $(PYTEST_OPTIONS) --cov=weft --cov-report=
	$(BIN)/python -m pytest -m real_time -rs $(PYTEST_OPTIONS) --cov=weft --cov-append --cov-report=term:skip-covered --cov-report=html

docs: $(DEVELOPMENT) ## build the documentation into site/
	$(BIN)/mkdocs build --strict --site-dir site
	@echo "The documentation: open $(CURDIR)/site/index.html in a browser."

clean: ## remove all generated files, .venv included
	rm -rf .venv .venv.lock build dist site htmlcov .coverage src/weft.egg-info $(DEMO)
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +

$(RUNTIME): requirements.txt pyproject.toml $(SETUP)
	@$(PYTHON) $(SETUP) $@ requirements.txt

$(BROWSER): $(DEVELOPMENT)
	@$(PYTHON) .ci/browser.py $@

$(BUBBLEWRAP): $(DEVELOPMENT)
	@$(PYTHON) .ci/bubblewrap.py $@

$(COMPILER): $(DEVELOPMENT)
	@$(PYTHON) .ci/compiler.py $@

$(SHELLS): $(DEVELOPMENT)
	@$(PYTHON) .ci/shells.py $@

$(SSH_SERVER): $(DEVELOPMENT)
	@$(PYTHON) .ci/ssh_server.py $@

$(SLURM): $(DEVELOPMENT)
	@$(PYTHON) .ci/slurm.py $@

$(BENCHMARK): requirements.txt requirements-dev.txt requirements-benchmark.txt pyproject.toml $(SETUP)
	@$(PYTHON) $(SETUP) $@ requirements-benchmark.txt

$(DEVELOPMENT): requirements.txt requirements-dev.txt pyproject.toml $(SETUP)
	@$(PYTHON) $(SETUP) $@ requirements-dev.txt

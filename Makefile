# make demo · make test · make test-all · make check · make docs · make dist · make bench
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
EXTRAS := train,lightning,ray,dev

.PHONY: demo test test-all fuzz check check-js bench docs dist install clean

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("polarised needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": set PYTHON=...") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing polarised into $(VENV) (once, a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$(EXTRAS)]"
	@touch $(READY)

install: $(READY)

demo: $(READY)
	$(BIN)/polarised demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-all: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement tests/peers.txt --editable ".[docs]"
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or peers or not slow"

# A night of hostile inputs: 100,000 of every kind, a table at the end.
# make fuzz INPUTS=10 tries the target itself, KINDS="npz csv" only these kinds.
fuzz: INPUTS ?= 100000
fuzz: KINDS ?=
fuzz: $(READY)
	cd tests && PYTHONPATH=. ../$(BIN)/python fuzz/test_fuzz.py $(INPUTS) $(KINDS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tests/check_install.py

# Needs Node 20 and npm; the linter is installed beside the tests of the scripts, nowhere else.
check-js:
	cd tests/report/web && npm install --silent --no-audit --no-fund --no-package-lock && npm run --silent lint && npm test --silent

# Every script with its defaults, one after the other; one that fails or misses its goal does not keep the rest back.
bench: $(READY)
	@failed=; for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || failed="$$failed $$file"; done; \
	test -z "$$failed" || { echo "failed or short of a goal:$$failed"; exit 1; }

# The site, into site/; a dead link, a citation without a work or a name without a page is an error.
docs: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Wheel and sdist into dist/, each checked and installed in a fresh environment without torch.
dist: $(READY)
	$(BIN)/python tests/check_distribution.py

clean:
	rm -rf $(VENV) site dist .pytest_cache .mypy_cache .ruff_cache

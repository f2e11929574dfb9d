# Two commands: `make demo` shows a real search, `make test` runs all fast checks. Both can be typed first, and again.
PYTHON ?= python3
BIN := .venv/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Dozens of processes import the same files: they are compiled once, also where the shell says that nothing is to be kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test size lint types fast gate slow studies faults browser e2e gpu benchmark nightly steady processors mutants calibration golden records install

demo: install
	$(BIN)/locus run fourier-gamma --budget smoke
	@echo "before typing locus yourself: source $(BIN)/activate"

test: lint types fast

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

# A file of tests a process (`SHARING` in tests/conftest.py names those that go together), a process a core, a thread a
# process. A process that stands still is ended with its stacks.
# WITH gives pytest more options.
WITH ?=
fast: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile -o faulthandler_exit_on_timeout=true $(WITH)

# Real clusters, killed processes: the few of them that find what the fast tests cannot, before each hand-in.
gate: install
	$(BIN)/python -m pytest -v -rR -m gate --durations=10

# Real clusters and longer trainings, one test after another. SLOW names some of the files. A slow or fault test that
# fails runs once more; what passed at its second try is listed, and the next change mends it.
SLOW ?= tests
slow: install
	$(BIN)/python -m pytest -v -rR -m slow $(SLOW) --durations=10 --ignore=$(STUDIES)

# Every named study at its smallest size, two at a time in one home: while one trains, the other starts or reports.
STUDIES := tests/journeys/test_studies.py
studies: install
	$(BIN)/python -m pytest -v -rR -m slow -n 2 --dist load $(STUDIES) --durations=30

# Killed processes and nodes, full disks, code that goes wrong, Ctrl-C: what is left, and that the study goes on. FAULTS
# names some of the files. Only root can mount the small disk of test_storage.py.
FAULTS ?= tests/faults
faults: install
	$(BIN)/python -m pytest -v -rR -m fault $(FAULTS) --durations=10

# Pages in a headless Chromium, which must be on the PATH.
browser: install
	$(BIN)/python -m pytest -q -m browser

# A whole lab: PostgreSQL, MLflow's server with users, a Ray cluster of two nodes, a browser. Wants Debian's postgresql
# (initdb and postgres on the PATH) and chromium.
e2e: install
	$(BIN)/python -m pytest -v -m e2e tests/e2e

# On a machine with an NVIDIA GPU: that it computes what a CPU does, and its speed beside timm's. Elsewhere all is skipped.
gpu: install
	$(BIN)/python -m pytest -q -rP -m gpu tests/gpu

# Speed; wants a quiet machine.
benchmark: install
	$(BIN)/python -m pytest -q -s -m benchmark

# How large the rooms are, line by line of their kind, and which bars they miss.
size: install
	$(BIN)/python -m tests.house.size

# Which results of the named studies are older than today's rules or code, and the hours that new ones take.
records: install
	$(BIN)/python -m tests.house.records

# What 22 studies decide and find at their smallest size, beside the files of tests/golden: a change of the house must
# change nothing. GOLDEN="--record" writes the files, GOLDEN="--only folds,stopped" runs some of them.
GOLDEN ?=
golden: install
	$(BIN)/python -m tests.golden.traces $(GOLDEN)

# Everything above but benchmarks, with new random examples, some hours long. It goes on where a part fails, and prints
# one table. NIGHTLY names some of the parts: `make nightly NIGHTLY="random slow"`.
nightly: install
	$(BIN)/python -m tests.nightly $(NIGHTLY)

# Five times all fast tests beside four busy loops: what fails here flakes.
steady: install
	@for loop in 1 2 3 4; do (while :; do :; done) & loops="$$loops $$!"; done; trap "kill $$loops" EXIT; \
	for try in 1 2 3 4 5; do $(MAKE) fast || failed="$$failed $$try"; done; echo "steady: failed tries:$${failed:- none}"; test -z "$$failed"

# All fast tests on three processors whose matrix products round otherwise (tests/processor.py).
processors: install
	for number in 1 2 3; do $(MAKE) fast WITH="--processor $$number" || exit 1; done

# Are the tests able to fail? A machine makes 300 mistakes in the source, one at a time: the fast tests must see them. An
# hour; what was stopped goes on. MUTANTS begins the names of the two files that are kept for this commit.
MUTANTS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/locus-mutants-$(shell git rev-parse --short HEAD)
mutants: install
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/mutants.py record $(MUTANTS).tests
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/mutants.py judge $(MUTANTS).tests $(MUTANTS).results

# How often are verdicts, intervals and searches wrong where the truth is known? A table beside its bars, half an hour.
# CALIBRATION names some of the tables.
CALIBRATION ?=
calibration: install
	$(BIN)/python -m tests.calibration.calibrate $(CALIBRATION)

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "locus needs Python 3.11 or newer: make PYTHON=python3.11"; exit 1; }
	@echo "making .venv with torch, timm, Ray and MLflow: some minutes the first time"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e '.[dev]'
	@touch $@

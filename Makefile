# `make demo` runs seven nights on a simulated week, `make test` runs the linters and the tests.
# `make test-all` adds what takes long: clusters under fire, Connect, archives, services, a browser.
# Every target creates the virtual environment if need be, with the interpreter PYTHON.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WARM := $(VENV)/.warm
BENCHES ?= groups propensities pairs kernels training quality distributed score nightly growth
BENCH_READY := $(VENV)/.bench-ready

# A file of tests runs in one process, which keeps its JVM and its kernels.
PYTEST := $(BIN)/python -m pytest -q --dist loadfile --no-loadscope-reorder
# More processes than cores, because many pure tests wait for a timeout or a server.
PYTEST_PURE := $(PYTEST) -n 3 -m "not spark and not cluster"

.PHONY: demo test test-all test-pure coverage bench papers faults matrix dist docs lock pictures transcript lint format clean java

test: $(WARM) java lint
	$(PYTEST) -n 2 --durations=20 -m "not all"

test-all: $(WARM) java lint
	$(PYTEST) -n 2 --durations=20

# The tests that need neither Java nor Spark.
test-pure: $(READY)
	$(PYTEST_PURE)

# Coverage of the pure tests. The lines of compiled kernels do not count as executed.
coverage: $(READY)
	$(PYTEST_PURE) --cov ulr --cov-report term:skip-covered

demo: $(WARM)
	rm -rf data/demo
	$(BIN)/ulr simulate --conf conf/demo.yaml
	$(BIN)/ulr nightly --conf conf/demo.yaml --date 2026-01-01..2026-01-07
	$(BIN)/ulr compare --conf conf/demo.yaml --date 2026-01-01..2026-01-07
	@echo "The last night's page: $(BIN)/ulr report --conf conf/demo.yaml --open"
	@echo "The runs and models, at http://127.0.0.1:5000:" \
	  "$(BIN)/mlflow ui --backend-store-uri sqlite:///data/demo/mlflow/mlflow.db"

bench: $(BENCH_READY) java
	for name in $(BENCHES); do echo "== $$name"; $(BIN)/python -m tests.bench.$$name || exit 1; done

# The tables and figures of the source papers, into docs/papers. About 20 minutes; PAPERS=--full.
papers: $(WARM)
	$(BIN)/python -m tests.bench.papers $(PAPERS)

# Faults and attacks against the product; root for power cuts and full disks. About 25 minutes.
faults: $(READY) java
	$(BIN)/python -m tests.bench.faults $(FAULTS)

# A night, two workers and the tests of logs on several Spark versions. At most 8 minutes a version with 2
# cores, after its environment was made.
matrix: $(READY) java
	$(BIN)/python -m tests.bench.matrix

# The page of all settings, from conf/base.yaml.
docs: $(READY)
	$(BIN)/python docs/settings.py > docs/settings.md

pictures: $(READY)
	$(BIN)/python docs/terminal.py
	$(BIN)/python -m tests.support.picture data/demo/warehouse/reports/2026-01-07.html docs/report.png

# Run and time the commands of a new user's first hour in a clean clone of HEAD.
transcript:
	$(PYTHON) docs/transcript.py

# A wheel, and an archive to run it on a cluster: docs/shipping.md. Both are reproducible.
dist: $(READY)
	rm -rf build dist
	SOURCE_DATE_EPOCH=315532800 $(BIN)/python -m pip wheel -q --no-deps --no-build-isolation -w dist .
	$(BIN)/python docker/pack.py dist/ulr-*.whl dist/environment.tar.gz

# The hashes of the pinned packages, after a pin was changed.
lock: $(READY)
	$(BIN)/python docker/lock.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The tests of Spark need Java 17. Without it, install it where that needs no password (root with
# apt), else print the one line that does.
java:
	@version() { "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 \
	  | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1; }; \
	found=$$(version); \
	if [ "$${found:-0}" -lt 17 ] && [ "$$(id -u)" = 0 ] && [ -z "$$JAVA_HOME" ] \
	  && command -v apt-get > /dev/null; then \
	  echo "installing Java 17 for the tests of Spark"; \
	  apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless > /dev/null; \
	  found=$$(version); \
	fi; \
	[ "$${found:-0}" -ge 17 ] || { echo "the tests of Spark need Java 17 or later, found" \
	  "$${found:-none}; on Debian or Ubuntu: apt-get install openjdk-17-jre-headless (and set" \
	  "JAVA_HOME). make test-pure runs the tests that need no Java" >&2; exit 1; }

$(READY): requirements.lock setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "the locked versions need Python 3.11 or later; name one: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -r requirements.lock
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $(READY)

# The kernels are compiled once for this machine; the commands then load them.
$(WARM): $(READY) $(wildcard ulr/kernels/*.py)
	$(BIN)/ulr warm-up
	@touch $(WARM)

$(BENCH_READY): $(READY) requirements-bench.lock
	$(BIN)/python -m pip install -q -r requirements.lock -r requirements-bench.lock
	@touch $(BENCH_READY)

clean:
	rm -rf $(VENV) build dist *.egg-info data .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis .coverage

# `make help` lists what can be made. Everything installs into .venv and a cache directory; nothing else is touched.
PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin/python
READY  := $(VENV)/.ready
WORKERS ?= 2
OWN_TARGETS := tests/containers tests/spark tests/study
SETS   := kafka-0.8.2.2 kafka-1.1.1 kafka-3.9.1 java-compiler

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-churn test-spark test-study test-containers conformance conformance-list mutation fuzz check format bench bench-quick images clean

help:                   ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)         ## virtual environment, packages, jars (the others call it)

$(READY): pyproject.toml constraints.txt Makefile setup.py fetcher/_records.pyx fetcher/_checksums.h
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed, $(PYTHON) is " + sys.version.split()[0] + ": install one, or make PYTHON=python3.11")'
	@$(PYTHON) -m zkconsumer.testing.java
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@echo "installing packages into $(VENV) (pyspark alone is 450 MB; a few minutes the first time)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --constraint constraints.txt
	@$(RUN) -m zkconsumer.testing.jars fetch $(SETS)
	@$(RUN) -m zkconsumer.testing.class_data
	@touch $@

demo: $(READY)          ## the main job on real servers, ending in something to look at
	@$(RUN) -m zkconsumer demo

test: $(READY)          ## the consumer, its tools and the servers (WORKERS=2 at a time); the suites below have their own targets
	@$(RUN) -m pytest --strict-servers -n $(WORKERS) --dist loadfile tests $(addprefix --ignore=,$(OWN_TARGETS)) $(PYTEST_ARGS)

test-spark: $(READY)    ## the pipeline on real Spark and a cluster on loopback
	@$(RUN) -m pytest --strict-servers -n $(WORKERS) --dist loadfile tests/spark $(PYTEST_ARGS)

test-study: $(READY)    ## the study, the new consumer on real brokers, the report in a browser
	@.ci/with-programs chromium $(RUN) -m pytest --strict-servers -n $(WORKERS) --dist loadfile tests/study $(PYTEST_ARGS)

test-churn: $(READY)    ## a million records through a group whose members come, go and are killed (minutes)
	@ZKCONSUMER_CHURN_RECORDS=1000000 $(RUN) -m pytest --strict-servers tests/broker/test_churn.py $(PYTEST_ARGS)

test-containers: $(READY)  ## the container back end and docker-compose.yml, on a real engine (as root, one is started)
	@.ci/with-docker-engine $(RUN) -m pytest --strict-servers tests/containers $(PYTEST_ARGS)

conformance: $(READY)   ## everything that has the real consumers as oracle, the long part too (tens of minutes); a table at the end
	@$(RUN) -m pytest --strict-servers -n $(WORKERS) --dist loadfile -m "conformance_full or not conformance_full" tests/conformance tests/tools $(PYTEST_ARGS)

conformance-list: $(READY)  ## docs/conformance.md, from the tests' docstrings (RESULTS=junit.xml: only what passed)
	@$(RUN) -m tests.conformance.list $(if $(RESULTS),--results $(RESULTS))

mutation: $(READY)      ## break the consumer in many places and see the tests notice (minutes)
	@$(RUN) -m tests.mutation --write && $(RUN) -m tests.conformance.list

check: $(READY)         ## format, lint, types, import layers
	@$(RUN) -m ruff format --check .
	@$(RUN) -m ruff check .
	@$(RUN) -m mypy
	@$(VENV)/bin/lint-imports

format: $(READY)        ## put the code into its format
	@$(RUN) -m ruff format .
	@$(RUN) -m ruff check --fix .

fuzz: $(READY)          ## broken message sets for the compiled reader, three minutes (FUZZ_ARGS="--seconds 3600")
	@$(RUN) -m tests.fuzz.fuzz_records --seconds 180 $(FUZZ_ARGS)

bench: $(READY)         ## what things cost here: ratios against the real consumers and other clients (most of an hour; BENCH_ARGS=--resume goes on with one that was ended)
	@$(RUN) -m tests.bench $(BENCH_ARGS)

bench-quick: $(READY)   ## the same, small and few, without promises (two minutes)
	@$(RUN) -m tests.bench --quick $(BENCH_ARGS)

images: $(READY)        ## container images of the servers for docker-compose.yml, made here without a registry
	@$(RUN) -m zkconsumer.testing.containers images

clean:                  ## remove what was made in this directory (the jar cache stays)
	rm -rf $(VENV) build dist *.egg-info fetcher/_records.c fetcher/_records*.so .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

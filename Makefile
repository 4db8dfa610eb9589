# Everything a contributor needs; a fresh machine needs only Python 3.11+, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow lint bench clean

# A stamp for each set of extras: installs again only when the requirements change.
$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) setuptools wheel
	$(PIP) torch
	$(PIP) --no-build-isolation -e .
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(PIP) --no-build-isolation -e '.[test]'
	touch $@

demo: $(VENV)/.core
	$(BIN)/sjepa demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -q -n 2

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -q -m slow

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test
	$(BIN)/python benchmarks/symbolic_speed.py
	$(BIN)/python benchmarks/engines_speed.py
	$(BIN)/python benchmarks/backends.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

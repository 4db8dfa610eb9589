# Everything a contributor needs; a fresh machine needs only Python 3.11+, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-plain test-perturbed test-slow lint docs notebooks sdist wheel mutants bench clean

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

$(VENV)/.docs: $(VENV)/.test
	$(PIP) --no-build-isolation -e '.[docs]'
	touch $@

demo: $(VENV)/.core
	$(BIN)/sjepa demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

# What depends on rounding (pages, training, discovery), computed as the plainest processor would:
# by torch, OpenBLAS, MKL and numpy without wide instructions.
NUMERICS := tests/docs tests/training tests/test_discover.py tests/test_wide.py tests/test_implicit.py tests/test_lags.py
PLAIN := ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Prescott MKL_CBWR=COMPATIBLE NPY_DISABLE_CPU_FEATURES='X86_V3 X86_V4 AVX512_ICL AVX512_SPR'
test-plain: $(VENV)/.test
	$(PLAIN) $(BIN)/python -m pytest -q -n 2 --dist worksteal $(NUMERICS)

# The same with noise in every least-squares solution (tests/perturb.py).
test-perturbed: $(VENV)/.test
	PERTURB=1e-12 $(BIN)/python -m pytest -q -n 2 --dist worksteal $(NUMERICS)

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -q -m slow

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The pictures of the gallery are drawn by the page that shows them. Nothing is fetched.
docs: $(VENV)/.docs
	rm -rf docs/gallery/pictures && mkdir docs/gallery/pictures
	cd docs/gallery/pictures && MPLBACKEND=agg PYTHONPATH=../../.. ../../../$(BIN)/python -m tests.docs.pages ../index.md
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build

# Pages as notebooks, run from the top; the pages stay their source.
notebooks: $(VENV)/.docs
	$(BIN)/python -m tests.docs.notebooks

# What a release holds besides the wheel: also tests, documentation and benchmarks.
sdist: $(VENV)/.core
	$(BIN)/python -c 'from setuptools import build_meta; print(build_meta.build_sdist("dist"))'

# Built from nothing (a build/ left behind would be packed again), installed into an empty
# environment, and asked for a law from outside the checkout.
wheel: $(VENV)/.core
	rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w dist .
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build && empty/bin/python ../.ci/check_wheel.py ../dist/*.whl ..
	rm -rf build

# Random changes to the code that the tests ought to notice: make mutants FILES=sjepa/bayes N=100
FILES ?= sjepa backends/sjepa_backends
TESTS ?= tests
N ?= 50
SEED ?= 0
mutants: $(VENV)/.test
	$(BIN)/python -m tests.mutants $(FILES) -n $(N) --seed $(SEED) --tests $(TESTS)

bench: $(VENV)/.test
	$(BIN)/python benchmarks/symbolic_speed.py
	$(BIN)/python benchmarks/backends_speed.py
	$(BIN)/python benchmarks/backends.py

clean:
	rm -rf $(VENV) build dist docs/_build docs/gallery/pictures docs/reference/names *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

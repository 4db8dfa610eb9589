# Everything a contributor needs; a fresh machine needs only Python 3.11+, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-plain test-perturbed test-slow lint docs notebooks sdist wheel sbom licenses mutants bench clean

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
NUMERICS := tests/docs tests/training tests/discovery tests/inference tests/search tests/data/test_lags.py
PLAIN := ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Prescott MKL_CBWR=COMPATIBLE NPY_DISABLE_CPU_FEATURES='X86_V3 X86_V4 AVX512_ICL AVX512_SPR'
test-plain: $(VENV)/.test
	$(PLAIN) $(BIN)/python -m pytest -q -n 2 --dist worksteal $(NUMERICS)

# The same with noise in every least-squares solution (tests/robustness/perturb.py).
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

# What a release holds, the same to the byte whoever builds it: the wheel, and the sources with
# tests, documentation and benchmarks. Built twice from the tracked files and compared.
sdist: $(VENV)/.core
	rm -rf dist
	$(BIN)/python .ci/release.py dist

# The wheel, installed into an empty environment and asked for a law from outside the checkout.
wheel: sdist
	rm -rf build
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build && empty/bin/python ../.ci/check_wheel.py ../dist/*.whl ..
	rm -rf build

# An environment with every extra and nothing else; what looks at it lives beside it.
build/.all: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/all
	build/all/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	build/all/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt '.[all]'
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom pip-licenses
	touch $@

# Software bill of materials (CycloneDX), and the licenses of all extras. Neither is committed.
sbom: build/.all
	mkdir -p dist
	build/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible -o dist/sjepa.cdx.json build/all/bin/python

licenses: build/.all
	mkdir -p dist
	build/tools/bin/pip-licenses --python=build/all/bin/python --format=markdown --order=license --with-urls --output-file=dist/licenses.md

# Changes to one file or folder that its tests ought to notice, by cosmic-ray, in a copy of what is
# committed: make mutants FILES=sjepa/symbolic/intervals.py TESTS=tests/symbolic
FILES ?= sjepa/symbolic/intervals.py
TESTS ?= tests/symbolic
COPY := build/mutants
RAY = cd $(COPY) && $(abspath $(BIN))
mutants: $(VENV)/.test
	$(PIP) cosmic-ray
	rm -rf $(COPY) && mkdir -p $(COPY) && git archive HEAD | tar x -C $(COPY)
	printf '[cosmic-ray]\nmodule-path = "%s"\ntimeout = 120.0\nexcluded-modules = []\ntest-command = "%s -m pytest -x -q %s"\n[cosmic-ray.distributor]\nname = "local"\n' \
	  '$(FILES)' '$(abspath $(BIN))/python' '$(TESTS)' > $(COPY)/mutants.toml
	$(RAY)/cosmic-ray init mutants.toml mutants.sqlite
	$(RAY)/cosmic-ray exec mutants.toml mutants.sqlite
	$(RAY)/cr-report mutants.sqlite | tail -4

bench: $(VENV)/.test
	$(BIN)/python benchmarks/symbolic_speed.py
	$(BIN)/python benchmarks/backends_speed.py
	$(BIN)/sjepa benchmark --backends stlsq,subset,pysindy

clean:
	rm -rf $(VENV) build dist docs/_build docs/gallery/pictures docs/reference/names *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

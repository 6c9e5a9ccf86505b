PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow bench docs wheel robust clean

PIP = $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

.venv/bin/python:
	$(PYTHON) -m venv .venv

# what the demo needs, and no more: nothing is compiled to bytecode before it is used
.venv/demo: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing what the demo needs into .venv (570 MB, once)"
	$(PIP) --no-compile -e ".[figures]"
	touch $@

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing everything into .venv (2.2 GB, once)"
	$(PIP) --quiet -e ".[test]"
	touch $@ .venv/demo

demo: .venv/demo
	$(BIN)/saltus demo --out results/demo

test: .venv/installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-slow: .venv/installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow

.venv/peers: .venv/installed
	$(PIP) --quiet -e ".[bench]"
	touch $@

bench: .venv/peers
	$(BIN)/python -m bench --write docs/benchmarks.md

docs: .venv/installed
	$(BIN)/python docs/gallery.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs results/docs
	@echo results/docs/index.html

wheel: .venv/installed
	$(BIN)/python tests/wheel_smoke.py results/wheel

robust: .venv/installed
	$(BIN)/python -m robust --write docs/robustness.md
	$(BIN)/python -m robust contacts --write docs/robustness.md
	$(BIN)/python -m robust batches --write docs/robustness.md
	$(BIN)/python -m robust attacks --write docs/robustness.md

clean:
	rm -rf .venv results build src/saltus.egg-info

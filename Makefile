PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow bench docs wheel robust clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test]"
	touch $@

demo: .venv/installed
	$(BIN)/saltus demo --out results/demo

test: .venv/installed
	$(BIN)/python -m pytest -n auto -m "not slow"

test-slow: .venv/installed
	$(BIN)/python -m pytest -n auto -m slow

.venv/peers: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
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
	$(BIN)/python -m robust attacks --write docs/robustness.md

clean:
	rm -rf .venv results build src/saltus.egg-info

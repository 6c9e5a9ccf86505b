PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow bench clean

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

bench: .venv/installed
	$(BIN)/python -m bench

clean:
	rm -rf .venv results build src/saltus.egg-info

# Two commands for a fresh machine: `make demo` and `make test`. `make gallery` writes the pages of all recordings.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Measuring needs torch, replaying a recording does not: it is large, so only where there is a GPU.
EXTRA := $(shell command -v nvidia-smi >/dev/null 2>&1 && echo '[torch]')
# The tests of one file stay in one worker and share what they set up. Each worker imports torch.
PARALLEL := -n logical --maxprocesses 4 --dist loadfile

.PHONY: demo test gallery pictures clean

demo: $(VENV)/.installed
	$(BIN)/python -m profiler experiments/autotune.yaml

test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest $(PARALLEL)

gallery: $(VENV)/.installed
	$(BIN)/python -m profiler gallery experiments/recordings reports/gallery

# The first screen of the page that is kept, for the README. A profile of its own, and no network.
pictures:
	mkdir -p docs/images
	profile=$$(mktemp -d) && chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
	  --disable-background-networking --disable-component-update --disable-sync --hide-scrollbars \
	  --user-data-dir="$$profile" --window-size=1440,900 --screenshot=docs/images/autotune.png \
	  "file://$(CURDIR)/reports/gallery/autotune.html"; status=$$?; rm -rf "$$profile"; exit $$status

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.$(EXTRA)'
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) reports/.build .mypy_cache .ruff_cache .pytest_cache

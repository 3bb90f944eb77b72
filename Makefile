# Thin names for what packaging/setup.sh, CMake, ctest and pytest do. Set-up is part of every target and takes seconds
# the second time. Nothing here has to be run as root unless Debian packages are missing.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
JOBS ?= $(shell nproc)
SETUP := packaging/setup.sh
# Of tests: many wait for a third of their time, for memory to go back or a server to come.
WORKERS ?= $(shell echo $$(($(JOBS) + ($(JOBS) + 1) / 2)))
PYTEST := build/venv/bin/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder
MORTISE := build/bin/mortise

TESTS ?=

.PHONY: help build test test-all packages-test deb docs manual abi demo tidy bench bench-quick bench-compare bench-threads bench-pool bench-affinity bench-latency bench-security fuzz soak clean _build bare

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

_build:
	cmake --preset release $(if $(wildcard build/CMakeCache.txt),$(TESTS),$(or $(TESTS),-DMORTISE_TESTS=OFF))
	ninja -C build -j $(JOBS)
	@install -D -m 755 cli/launcher/mortise.sh $(MORTISE)

build:  ## build/bin/mortise and build/lib/libmortise-NAME.so
	@$(SETUP) build
	@$(MAKE) --no-print-directory _build

test:  ## set up, build, every test
	@$(SETUP) build test programs packages
	@$(MAKE) --no-print-directory _build TESTS=-DMORTISE_TESTS=ON
	ctest --test-dir build --output-on-failure -j $(JOBS)
	$(PYTEST) tests

test-all:  ## the long ones too: every program on every allocator, all seeds
	@$(SETUP) build test programs packages
	@$(MAKE) --no-print-directory _build TESTS=-DMORTISE_TESTS=ON
	MORTISE_TEST_ALL=1 ctest --test-dir build --output-on-failure -j $(JOBS)
	MORTISE_TEST_ALL=1 $(PYTEST) tests

packages-test:  ## every package built, installed and used in a clean root, the slow ones too
	@$(SETUP) build test packages
	@$(MAKE) --no-print-directory _build
	MORTISE_TEST_ALL=1 $(PYTEST) tests/packages

deb: build  ## Debian packages in build/packages
	@$(SETUP) packages
	cd build && cpack -G DEB

docs:  ## the documentation site: build/site/index.html
	@$(SETUP) build
	build/venv/bin/python packaging/site.py build/site

manual:  ## write the manual pages and the completion anew, from the command line's own tables
	PYTHONPATH=cli build/venv/bin/python packaging/manual.py packaging/man
	PYTHONPATH=cli build/venv/bin/python packaging/completion.py packaging/completion

abi:  ## record the interfaces of libmortise and libmortise_pool: packaging/abi
	@$(SETUP) build packages
	@$(MAKE) --no-print-directory _build
	packaging/abi.sh packaging/abi

demo:  ## compare allocators on a real program: the table here, the page in build/demo.html
	@$(SETUP) build demo
	@$(MAKE) --no-print-directory _build
	@cli/demo/demo.sh

tidy:  ## the style, in a minute: lengths, names, folder ranks, self-contained headers, links, the catalogue
	@$(SETUP) build
	$(PYTEST) tests/tidy

bench:  ## side by side with the peers: tables here, JSON and plots in build/bench
	@$(SETUP) build bench
	@$(MAKE) --no-print-directory _build
	build/venv/bin/python bench/run.py

bench-quick:  ## the same, in minutes
	@$(SETUP) build bench
	@$(MAKE) --no-print-directory _build
	build/venv/bin/python bench/run.py --quick

bench-threads:  ## ordinary and isolated threads side by side: docs/isolation.md
	@$(SETUP) build bench
	@$(MAKE) --no-print-directory _build
	build/venv/bin/python bench/threads/run.py

bench-compare:  ## the curves of docs/compare.md (OCaml, Go, Java, Node, jemalloc, our fits), in slices of CASE_BUDGET=8m a case
	@$(SETUP) build compare
	@$(MAKE) --no-print-directory _build
	cli/cases/run.sh

bench-pool:  ## the object pools: the original experiment, the bars, what others use as pools
	@$(SETUP) build bench bench-pool
	@$(MAKE) --no-print-directory _build
	ninja -C build bench_pool
	build/venv/bin/python bench/pool/run.py

bench-latency:  ## the tail of malloc and free: every single call of two threads that free each other's blocks
	@$(SETUP) build bench
	@$(MAKE) --no-print-directory _build
	build/venv/bin/python bench/latency/run.py

bench-affinity:  ## affinity pools: simulated misses and the bars they keep, then times (docs/affinity.md)
	@$(SETUP) build bench bench-affinity
	@$(MAKE) --no-print-directory _build
	ninja -C build bench_affinity
	build/venv/bin/python bench/affinity/run.py
	build/venv/bin/python bench/affinity/sweeps.py
	build/venv/bin/python bench/affinity/gain.py
	build/venv/bin/python bench/affinity/run.py --wide --cycles

bare:  ## compositions without an operating system: images on an emulated board, and what the heaps cost in ROM and RAM
	@$(SETUP) build test
	@$(MAKE) --no-print-directory _build
	@build/venv/bin/python examples/bare/make.py

bench-security:  ## crimes against the heap, ours beside hardened peers: docs/5-faults.md
	@$(SETUP) build bench test
	@$(MAKE) --no-print-directory _build TESTS=-DMORTISE_TESTS=ON
	build/venv/bin/python bench/security.py

fuzz:  ## guarded stacks under libFuzzer for five minutes: no false report, every crime named
	@$(SETUP) build test
	@$(MAKE) --no-print-directory _build TESTS=-DMORTISE_TESTS=ON
	tests/fuzz/run.sh 300

soak:  ## servers and run-times under load for minutes on every allocator: no growth, equal answers
	@$(SETUP) build test programs packages
	@$(MAKE) --no-print-directory _build TESTS=-DMORTISE_TESTS=ON
	PYTHONPATH=tests build/venv/bin/python -m programs.soak --json build/soak.json

clean:  ## remove build/
	rm -rf build

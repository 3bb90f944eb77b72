#!/usr/bin/env bash
# make demo: which allocator should a Lua program run on? Of the programs tried, Lua shows the most: it
# asks malloc for every table and every string. The same comparison works for any program: mortise compare -- PROG ARGS
set -euo pipefail
cd "$(dirname "$0")/../.."
build/bin/mortise doctor -- lua5.4
echo
arms=glibc,hslab
for peer in jemalloc mimalloc tcmalloc; do
  build/bin/mortise list --json | grep -q "\"name\": \"$peer\"" && arms+=,$peer
done
status=0
build/bin/mortise compare --arms "$arms" --budget "${DEMO_BUDGET:-100s}" --html build/demo.html --json build/demo.json \
  -- lua5.4 cli/demo/documents.lua 2 || status=$?
# 3 is an honest answer too: on a machine this noisy, some arm could not be told from the reference.
[ $status = 0 ] || [ $status = 3 ] || exit $status
echo
echo "the page: build/demo.html    every run: build/demo.json"
echo "your own program: build/bin/mortise compare -- PROG ARGS"

#!/bin/sh
# The command line of a checkout, as `make build` puts it into build/bin: the environment in build/venv runs the
# package in cli.
build=$(CDPATH= cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd)
python=$build/venv/bin/python
[ -x "$python" ] || { echo "mortise: $python is missing: run 'make build'" >&2; exit 2; }
exec "$python" -E "$build/../cli" "$@"

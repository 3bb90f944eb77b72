#!/usr/bin/env bash
# setup.sh GROUP...: installs the Debian packages of each group that are missing, and the project's Python environment
# (build/venv). The groups are the lists in packaging/setup/GROUP.txt. Says what it installs and why; needs root or sudo only
# when something is missing. Idempotent: the second run takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
lists=packaging/setup
[ $# -ge 1 ] || { echo "usage: packaging/setup.sh GROUP...   (groups: $(cd $lists && echo *.txt | sed 's/\.txt//g'))" >&2; exit 2; }

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"
  else echo "setup: packages are missing and neither root nor sudo is at hand; run as root: $*" >&2; exit 1; fi; }

missing=()
for group in "$@"; do
  [ -f "$lists/$group.txt" ] || { echo "setup: unknown group '$group'; there are: $(cd $lists && echo *.txt | sed 's/\.txt//g')" >&2; exit 2; }
  want=(); while read -r package _; do case $package in ''|'#'*) ;; *) installed "$package" || want+=("$package");; esac; done <"$lists/$group.txt"
  [ ${#want[@]} = 0 ] || { echo "setup: installing for '$group' ($(sed -n 's/^# //p;q' "$lists/$group.txt")): ${want[*]}" >&2; missing+=("${want[@]}"); }
done
if [ ${#missing[@]} -gt 0 ]; then
  mkdir -p build; log=build/setup.log
  # Nothing that a package starts by itself may run here: servers are started by the tests that need them.
  policy=/usr/sbin/policy-rc.d
  [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null; as_root chmod +x $policy; trap 'as_root rm -f '$policy EXIT; }
  { as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1 || { tail -20 "$log" >&2; echo "setup: apt-get failed; the whole log is in $log" >&2; exit 1; }
fi

# The Python side: one virtual environment, refreshed when pyproject.toml changes.
if [ -f pyproject.toml ]; then
  stamp=build/venv/.stamp
  if ! cmp -s pyproject.toml "$stamp"; then
    python3=/usr/bin/python3; [ -x $python3 ] || python3=python3
    echo "setup: making the Python environment in build/venv" >&2
    mkdir -p build; rm -rf build/venv; $python3 -m venv build/venv
    build/venv/bin/python packaging/python_deps.py pyproject.toml >build/requirements.txt
    build/venv/bin/pip install -q --disable-pip-version-check -r build/requirements.txt >build/pip.log 2>&1 || { tail -20 build/pip.log >&2; echo "setup: pip failed; the whole log is in build/pip.log" >&2; exit 1; }
    cp pyproject.toml "$stamp"
  fi
fi

# What the Rust crate is built with, so that its tests need no network.
if [[ " $* " = *" packages "* ]]; then
  cargo fetch -q --offline 2>/dev/null || cargo fetch -q || { echo "setup: cargo cannot fetch what Cargo.toml names" >&2; exit 1; }
fi

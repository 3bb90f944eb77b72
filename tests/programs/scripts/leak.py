"""Keeps a little more memory after every line of its input: what a soak must notice."""

import sys

kept = []
for line in sys.stdin:
    if sys.argv[1] == "leaks":
        kept.append(bytearray(b"x" * (2 << 20)))
    print(line.strip(), flush=True)

"""Standard streams that the caller has closed (`>&-`) are opened to nowhere, before a file takes their number."""

import os
import sys


def open_closed() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
    sys.stdin = sys.stdin or open(0, closefd=False)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)

"""For each line of the input takes much (`take`), drops 85 in 100 at random (`thin`) or everything (`clear`), and says so."""

import random
import sys

kept = []
for line in sys.stdin:
    if line == "take\n":
        kept = [{"id": i, "text": "x" * (i * 7919 % 600)} for i in range(120_000)]
    elif line == "thin\n":
        random.seed(1)
        kept = [each for each in kept if random.random() >= 0.85]
    else:
        kept = []
    print(len(kept), flush=True)

"""Programs from their first instruction to their last: start, threads, signals, fork, memory running out, sleep."""

"""Real programs under preload: each must behave as it does without, and the allocator must be proven loaded."""

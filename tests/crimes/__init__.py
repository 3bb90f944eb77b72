"""What a program is told when it misuses the heap."""

"""What the tests of finished allocators share."""

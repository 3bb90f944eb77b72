"""Other machines and other systems than the one the tests run on."""

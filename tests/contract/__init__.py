"""The malloc ABI of the shared objects, where a test reads what a program prints."""

"""Lets `python -m mortise ...` run the command line of an installed package."""

from mortise.entry import start

start()

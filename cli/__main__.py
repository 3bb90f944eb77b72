"""Lets `python cli ...` run the command line from a checkout; the launcher in build/bin does exactly that."""

from mortise.entry import start

start()

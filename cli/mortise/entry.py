"""Where the command line begins: before its imports, which take a while."""

import signal
import sys


def start() -> None:
    """Until there is somebody who catches it, Ctrl-C ends the process: a KeyboardInterrupt out of an import would be a traceback."""
    catches = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if catches:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mortise import main

    try:
        if catches:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        main.start()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)

"""What the whole suite needs of the process that it runs in."""

from __future__ import annotations

import signal

# A shell without job control starts what it puts behind it with SIGINT ignored, and
# children would inherit that: then no Ctrl-C could reach a job under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

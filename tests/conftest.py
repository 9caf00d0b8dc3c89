"""What the whole suite needs of the process that it runs in."""

from __future__ import annotations

import signal

from hypothesis import settings

# No test asserts a time: the machine may be busy with something else. And the same code has the same
# answer: what only some examples show is looked for by `make soak`, not in whoever's change comes next.
settings.register_profile("slaqd", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("slaqd")

# A shell without job control starts what it puts behind it with SIGINT ignored, nohup what
# it starts with SIGHUP; children would inherit that, and no such signal could reach a job under test.
for number, usual in {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}.items():
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

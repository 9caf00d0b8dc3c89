"""The small privileged process that reads, parses and writes in users' trees, as the user.

    slaqd ──frames──▶ service ──▶ growth   stat, in a thread that wears a user's file-system rights
                         │
                         ├──▶ forker ──fork──▶ child   becomes one user for good, reads and parses, dies
                         │
                         └──▶ hands    an adapter's own verbs, such as writing quotas

Loads no numpy. What slaqd itself needs of it is in `client`; `oneself` does the same
where slaqd serves one user and nothing has to change identity.
"""

from __future__ import annotations

"""Plan to Actions to Outcomes: the only room that changes the cluster."""

from slaqd.act.execute import Done, execute, refusals, stale
from slaqd.act.follow import FollowFiles
from slaqd.act.journal import Journal
from slaqd.act.parting import let_go
from slaqd.act.reconcile import reconcile
from slaqd.act.recover import open_journal

__all__ = [
    "Done",
    "FollowFiles",
    "Journal",
    "execute",
    "let_go",
    "open_journal",
    "reconcile",
    "refusals",
    "stale",
]

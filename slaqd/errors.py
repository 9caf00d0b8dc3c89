"""The tree of errors, by what the caller can do.

SlaqdError                  every error of ours; its text is meant for people
├── ConfigError             fix the file: names file, line and key (exit 78)
├── TagError                fix the tag: names the word that is wrong
├── SourceRefused           a user's file can't be read: tell the user
├── StateError              slaqd's own state can't be used now: try again (exit 74)
│   ├── StateRefused        nor later, until somebody changes something: says what (exit 78)
│   └── AlreadyRunning      another slaqd holds the state directory (exit 75)
├── AdapterError            the resource manager
│   ├── AdapterUnavailable  no answer: wait, back off, change nothing
│   │   └── AgentUnavailable slaqd-agent does not answer
│   └── AdapterRefused      this request never works: don't repeat it
├── JobGone                 the job is over: forget it
└── ControlError            the control socket; carries a code of the wire
    ├── DaemonUnreachable   nobody answers (slaqctl exit 4)
    └── NotPermitted        not your job (slaqctl exit 5)
"""

from __future__ import annotations


class SlaqdError(Exception):
    """Base of all errors that slaqd raises on purpose."""


class ConfigError(SlaqdError):
    """The configuration can't be used."""


class TagError(SlaqdError):
    """A tag can't be understood."""


class SourceRefused(SlaqdError):
    """A user's file can't be read."""


class StateError(SlaqdError):
    """The journal or the state directory can't be used."""


class StateRefused(StateError):
    """The state directory or what is in it can't be used as it is, however often it's tried."""


class AlreadyRunning(StateError):
    """Another slaqd holds the state directory."""


class AdapterError(SlaqdError):
    """The resource manager did not do what was asked."""


class AdapterUnavailable(AdapterError):
    """The resource manager does not answer."""


class AgentUnavailable(AdapterUnavailable):
    """slaqd-agent does not answer: nobody's log can be read, nobody's quota written."""


class AdapterRefused(AdapterError):
    """The resource manager refuses, and will again."""


class JobGone(SlaqdError):
    """The job is over or never was."""


class ControlError(SlaqdError):
    """A request on the control socket failed. ``code`` is the wire's word for it."""

    def __init__(self, code: str, text: str) -> None:
        """Keep the code beside the text."""
        super().__init__(text)
        self.code = code


class DaemonUnreachable(ControlError):
    """No daemon answers on the socket."""

    def __init__(self, text: str) -> None:
        """Carry the code that slaqctl turns into exit 4."""
        super().__init__("unreachable", text)


class NotPermitted(ControlError):
    """The caller may not do this to that job."""

    def __init__(self, text: str) -> None:
        """Carry the code that slaqctl turns into exit 5."""
        super().__init__("not_permitted", text)

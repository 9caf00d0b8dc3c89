"""The process: one cycle after another, and a socket to ask it."""

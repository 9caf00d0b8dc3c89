"""Run all benchmarks; the exit status is 1 if one misses its goal."""

from __future__ import annotations

import sys

from benchmarks import decide, idle, memory, predict

RESULTS = [predict.main(sys.argv[1:]), decide.main(), idle.main(), memory.main()]
sys.exit(0 if all(RESULTS) else 1)

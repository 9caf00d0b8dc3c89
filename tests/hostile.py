"""Files that are made to lead astray whoever reads them as Alice, each with what is to come of it."""

from __future__ import annotations

import hostile_contents
import hostile_names
import hostile_places
from hostile_case import CASES, Case, sources

__all__ = ["CASES", "Case", "hostile_contents", "hostile_names", "hostile_places", "sources"]

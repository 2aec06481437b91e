"""A small search-based repairer: the generator that needs no model.

It mutates the candidate's syntax tree and lets the loop verify each mutant. `expressions.py` and
`statements.py` say which mutants there are, `clues.py` what the feedback says of where and what the
fault is, `search.py` which mutant is next. It learns only what the disclosure level lets it know, so
that the worth of feedback can be measured: the same search with less of it needs more verifications.
"""

from .search import RepairGenerator

__all__ = ["RepairGenerator"]

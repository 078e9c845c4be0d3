"""The result of comparing an export with its original."""

from dataclasses import dataclass, replace
from typing import Any

from headway.formats.differences import BOUND
from headway.formats.texts import LINES
from headway.hub.download import one_line


@dataclass(frozen=True)
class Parity:
    """The result of a comparison."""

    max_difference: float | None = None
    """the largest difference between two answers, NaN if one is not a number; None: not compared"""
    over: str = ""
    """the inputs that ``max_difference`` was taken over, in words"""
    bound: float | None = BOUND
    """the largest difference that passes; None: it is only reported, as with a lower precision"""
    tokens_equal: bool | None = None
    """whether every line gave the same ids; None: not compared"""
    agreement: tuple[int, int] | None = None
    """how many answers (greedy tokens, labels) are equal, of how many; None: not counted"""
    problem: str | None = None
    """what differs, or why nothing was compared"""
    reader: str = "transformers"
    """the program that read the export"""
    version: str | None = None
    """of ``reader``; None: nothing was compared"""
    needs: str = "transformers"
    """the package to install or upgrade if nothing was compared"""
    door: str | None = None
    """how the export was opened, as a user writes it"""
    seconds: tuple[float, float] | None = None
    """how long Headway and the reader took for the same answers; None: not timed"""
    notes: tuple[str, ...] = ()
    """further facts about the export, a sentence each"""

    @property
    def checked(self) -> bool:
        """Whether there was a program that reads such exports."""
        return self.version is not None

    @property
    def passed(self) -> bool:
        """Whether everything that was compared agrees."""
        return self.problem is None and self.checked

    def holding(self, found: "Parity", *problems: str | None, **more: Any) -> "Parity":
        """What a comparison ``found`` of the export that this names, with all ``problems`` of it, and fields."""
        named = {name: getattr(self, name) for name in ("reader", "version", "needs", "door")}
        return replace(found, **named, problem="; ".join(filter(None, problems)) or None, **more)

    def unusable(self, error: Exception, through: str | None = None) -> "Parity":
        """The result where opening or asking the export failed, ``through`` something else than its door."""
        return replace(self, problem=f"{through or self.door} cannot use it: {one_line(error)}")

    @property
    def words(self) -> str:
        """What was compared and found, in one sentence without its full stop."""
        parts = []
        if self.max_difference is not None:
            most = "" if self.bound is None else f" (at most {self.bound:.2g})"
            parts.append(f"max_difference {self.max_difference:.2g} over {self.over}{most}")
        if self.agreement is not None:
            parts.append(f"{self.agreement[0]:,} of {self.agreement[1]:,} answers equal")
        if self.tokens_equal:
            parts.append(f"the same ids for {LINES:,} lines")
        return ", ".join(parts)

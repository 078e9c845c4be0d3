"""What was found out about data."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Detected:
    """What was found; `reasons` are lines for a person, each with the option that would change it."""

    task: str
    text_column: str | None
    label_column: str | None
    reasons: list[str]
    second_column: str | None = None
    """The other text of each pair: what belongs to the first (embedding), what is to be written (translation)."""
    chat: bool = False
    """Whether these are conversations."""
    warnings: list[str] = field(default_factory=list)
    """Lines about what is lost when the data are trained on so."""

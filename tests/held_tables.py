"""Tables whose rows are in memory and may be changed."""

from headway.data.records.rows import chunked
from headway.data.records.table import Table


class HeldTable(Table):
    """A table that reads the rows of a list, however they have changed."""

    kept: list[dict[str, str]]

    @property
    def rows(self):
        return self.kept


def table(rows, columns, path, fingerprint=""):
    """A table of these rows, as though they stood in a .csv at ``path``, one line each."""
    kept = list(rows)
    numbers = range(2, len(kept) + 2)

    def chunks():
        cells = ([row[name] for name in made.columns] for row in kept)
        return chunked(made.columns, zip(numbers, cells, strict=True))

    made = HeldTable((path,), list(columns), chunks, numbers, fingerprint)
    made.kept = kept
    return made

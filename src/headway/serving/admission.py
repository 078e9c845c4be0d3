"""How much may be computed and wait at a time: what is more is refused at once instead of being late."""

from headway.serving.errors import busy, invalid, unavailable


class Places:
    """The places of a model's texts: those being computed and those that wait.  Used by the event loop alone."""

    def __init__(self, running: int, queue: int, queued_tokens: int):
        self.running, self.most, self.most_tokens = running, running + queue, queued_tokens
        self.taken = self.tokens = 0
        self.closed = ""
        """why nothing is admitted any more"""

    def check(self, count: int = 1) -> None:
        """Raise RequestError unless ``count`` more texts have a place."""
        if self.closed:
            raise unavailable(self.closed)
        if count > self.most:
            raise invalid(f"the request asks for {count} texts, and {self.most} may be computed or wait: ask for fewer")
        if self.taken + count > self.most:
            raise busy(f"{self.taken} texts are being computed or wait, and there is place for {self.most}: try again")

    def take(self, tokens: list[int]) -> None:
        """Take a place for each text, given the tokens of each.  Raises RequestError."""
        self.check(len(tokens))
        waits = self.taken + len(tokens) > self.running
        if waits and self.tokens + sum(tokens) > self.most_tokens:
            raise busy(f"{self.tokens:,} tokens wait already, and {self.most_tokens:,} may: try again")
        self.taken += len(tokens)
        self.tokens += sum(tokens)

    def leave(self, tokens: int) -> None:
        """Give back the place of one text with so many tokens."""
        self.taken -= 1
        self.tokens -= tokens

"""`Losses`: what could not be read, counted, and told in one sentence for each file and reason."""

from __future__ import annotations

from collections import Counter


class Losses:
    """Collects losses while files are read."""

    def __init__(self) -> None:
        self._sentences: list[str] = []
        self._rows: Counter[tuple[str, str]] = Counter()
        self._read: Counter[str] = Counter()
        self.damaged: set[str] = set()
        """Names of the files that lost something."""

    def say(self, file: str, sentence: str) -> None:
        """Take a loss that happens once."""
        self.damaged.add(file)
        self._sentences.append(f"{file}: {sentence}")

    def disagree(self, sentence: str) -> None:
        """Take a sentence about two files that tell the same thing differently."""
        self._sentences.append(sentence)

    def passed_over(self, file: str, reason: str) -> None:
        """Count one row or event that was not taken."""
        self.damaged.add(file)
        self._rows[file, reason] += 1

    def read(self, file: str, amount: int = 1) -> None:
        """Count rows or events that were taken."""
        self._read[file] += amount

    def sentences(self) -> list[str]:
        """Return every loss with its amount, in the order in which the reasons first came up."""
        counted = [
            f"{file}: {amount} of {amount + self._read[file]} entries were passed over: {reason}."
            for (file, reason), amount in self._rows.items()
        ]
        return [*self._sentences, *counted]

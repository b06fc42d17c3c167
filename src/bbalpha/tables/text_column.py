"""Columns of text: categories as features of zeros and ones, and effects if there are many.

A category that too few rows have is pooled with the other rare ones, because a weight learned from
a few rows predicts nothing. Texts that did not occur in training join them. If a column has more
frequent categories than `MAX_ONE_HOTS`, or many pooled rows, it also gets the `effects` of all its
categories, so that any number of categories can be used.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bbalpha.tables import cells as cells_of
from bbalpha.tables.blocks import Block, Tally
from bbalpha.tables.effects import MAX_OUTPUTS, Effects
from bbalpha.tables.messages import (
    TableError,
    check_finite,
    check_keys,
    check_texts,
    join,
    listing,
    option,
    quote,
    remedies,
)
from bbalpha.tables.reading import Reading

MAX_ONE_HOTS = 100  # features of zeros and ones, in addition to the one for pooled texts
MAX_POOLED = 0.1  # fraction of rows with pooled texts above which effects are added
MAX_NEW_TEXTS = 20  # allowed even if most rows have a text of their own
MAX_TEXTS = 100_000  # stored in a model file
NUM_SHOWN = 10  # categories that a description names
OTHER = "other"


@dataclass(frozen=True)
class TextColumn:
    """A column of text.

    Attributes:
        name: Its name in the header.
        categories: The texts with their own feature, sorted; a last entry None stands for missing
            cells.
        pooled: The other texts in training, perhaps with None.
        other: Whether pooled and unseen texts have a feature; if not, all features are zero.
        effects: The effects of every category and pooled text, in this order, or ().
    """

    name: str
    categories: tuple[str | None, ...]
    pooled: tuple[str | None, ...] = ()
    other: bool = False
    effects: tuple[tuple[float, ...], ...] = ()
    kind = "text"

    @classmethod
    def learn(
        cls, reading: Reading, least: int, outputs: np.ndarray | None = None
    ) -> tuple["TextColumn", np.ndarray]:
        """Return the column of a training table, and the effects for its rows.

        Args:
            reading: The cells.
            least: The rows with a 1, and with a 0, that a feature of zeros and ones needs.
            outputs: Targets as returned by `effects.outputs_of`, for columns with many categories.
        """
        counts = cells_of.counts(reading.cells)
        frequent = sorted(counts, key=lambda text: (-counts[text], text is None, text or ""))
        chosen = [text for text in frequent[:MAX_ONE_HOTS] if counts[text] >= least]
        taken = set(chosen)
        rest = [text for text in frequent if text not in taken][:MAX_TEXTS]
        num_pooled = len(reading.cells) - sum(counts[text] for text in chosen)
        chosen.sort(key=lambda text: (text is None, text or ""))
        column = cls(reading.name, tuple(chosen), tuple(rest), num_pooled >= least)
        num_repeated = sum(counts[text] for text in rest if counts[text] > 1)
        if outputs is None or num_repeated < MAX_POOLED * len(reading.cells):
            return column, np.zeros((len(reading.cells), 0))
        codes = column._codes(reading.cells)
        codes = np.where(codes < 0, len(chosen) + len(rest), codes)  # beyond MAX_TEXTS
        found = Effects.learn(codes, len(chosen) + len(rest) + 1, outputs)
        if not found.between.any():
            return column, np.zeros((len(codes), 0))
        effects = tuple(map(tuple, found.values[:-1].tolist()))
        column = cls(reading.name, tuple(chosen), tuple(rest), num_pooled >= least, effects)
        return column, found.of_training_rows(codes, outputs)

    def encode(self, reading: Reading, unknown: str, effects: np.ndarray | None = None) -> Block:
        """Return the features of cells that were read as text.

        Args:
            reading: The cells.
            unknown: "other" to pool texts that did not occur in training, "error" to refuse them.
            effects: The effects for training rows; by default they are looked up.
        """
        codes = self._codes(reading.cells)
        if unknown == "error" and (codes < 0).any():
            self._refuse_unseen(reading, int((codes < 0).argmax()))
        num = len(self.categories)
        pooled = num if self.other else -1
        hot = np.where((codes < 0) | (codes >= num), pooled, codes)
        if self.effects and effects is None:
            table = np.array([*self.effects, [0.0] * len(self.effects[0])])
            effects = table[codes]  # the last row, −1, is for unseen texts
        columns = (
            () if effects is None or not self.effects else tuple(np.ascontiguousarray(effects.T))
        )
        return Block(columns, hot, num + self.other, self._tallies(reading, codes))

    @property
    def feature_names(self) -> list[str]:
        """The name of each feature, such as color=red, color=other or effect of color."""
        names = [f"{self.name}={'' if text is None else text}" for text in self.categories]
        names += [self._other_name] if self.other else []
        num = len(self.effects[0]) if self.effects else 0
        numbers = [""] if num == 1 else [f" {number}" for number in range(1, num + 1)]
        return names + [f"effect of {self.name}{number}" for number in numbers]

    @property
    def num_texts(self) -> int:
        """The number of different texts in training."""
        return len(self.categories) + len(self.pooled)

    @property
    def words(self) -> str:
        """The column in words."""
        texts = ["missing" if text is None else quote(text) for text in self.categories]
        named = [join(texts[:NUM_SHOWN], len(texts) - NUM_SHOWN)] if texts else []
        if self.other and self.pooled:
            named.append(f"{len(self.pooled):,} rare ones pooled")
        if self.effects:
            named.append("a number for the effect of each")
        return f"text: {'; '.join(named)}"

    def to_json(self) -> dict[str, Any]:
        """The column as an object for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "categories": list(self.categories),
            "pooled": list(self.pooled),
            "other": self.other,
            "effects": [list(row) for row in self.effects],
        }

    @classmethod
    def from_json(cls, entry: dict[str, Any], what: str) -> "TextColumn":
        """Return the column that `to_json` described, if it could have."""
        check_keys(entry, ("name", "kind", "categories", "pooled", "other", "effects"), what)
        found = {}
        for name, most in (("categories", MAX_ONE_HOTS), ("pooled", MAX_TEXTS)):
            values = entry[name]
            has_none = isinstance(values, list) and None in values
            texts = [text for text in values if text is not None] if has_none else values
            texts = check_texts(texts, f"the {name} of {what}", most)
            if has_none and values.count(None) > 1:
                raise TableError(f"the {name} of {what} must differ; got None twice.")
            found[name] = tuple(values) if has_none else texts
        if set(found["categories"]) & set(found["pooled"]):
            raise TableError(f"the categories of {what} must not be pooled; got both.")
        if not isinstance(entry["other"], bool):
            raise TableError(f"other of {what} must be true or false; got {quote(entry['other'])}.")
        effects = _effects(entry["effects"], sum(map(len, found.values())), what)
        return cls(entry["name"], **found, other=entry["other"], effects=effects)

    def why_useless(self, least: int) -> str | None:
        """Why no feature of the column has `least` rows with a 1 and with a 0, or None."""
        if self.effects or len(self.categories) + self.other > 1:
            return None
        if self.categories:
            return f"differs from {quote(self.categories[0])} in fewer than {least} rows"
        return f"has no text that {least} rows share"

    @property
    def _other_name(self) -> str:
        """A name that no category has."""
        name = OTHER
        while name in self.categories:
            name = f"{name} texts"
        return f"{self.name}={name}"

    def _codes(self, cells: Any) -> np.ndarray:
        return cells_of.codes(cells, [*self.categories, *self.pooled])

    def _tallies(self, reading: Reading, codes: np.ndarray) -> tuple[Tally, ...]:
        unseen = codes < 0
        if not unseen.any() or len(self.pooled) == MAX_TEXTS:
            return ()
        value = reading.cells[int(unseen.argmax())].as_py()
        example = "a missing cell" if value is None else quote(value)
        place = "pooled with the rare ones" if self.other else "counted as none of the known texts"
        words = f"texts were not in the training table, such as {example}; they are {place}"
        return (Tally("unseen", int(unseen.sum()), words, len(codes)),)

    def _refuse_unseen(self, reading: Reading, row: int) -> None:
        value = reading.cells[row].as_py()
        found = "a missing value" if value is None else quote(value)
        known = [text for text in (*self.categories, *self.pooled) if text is not None]
        remedy = remedies(option("--unknown other", "", "pools it with the rare ones"))
        raise TableError(
            f"column {quote(self.name)} has {found} in row {row + 1}, but the training table had "
            f"only {listing(known)}{remedy}."
        )


def why_texts_cannot_help(reading: Reading) -> str | None:
    """Why a column of text cannot help to predict new rows, or None if it may."""
    num_rows, num = len(reading.cells), len(cells_of.counts(reading.cells))
    if num == 1:
        return f"is {quote(reading.cells[0].as_py())} in every row"
    if num == num_rows:
        return "has a different text in every row"
    if num > MAX_NEW_TEXTS and 2 * num > num_rows:
        return f"has {num:,} different texts in {num_rows:,} rows"
    return None


def _effects(rows: Any, num_texts: int, what: str) -> tuple[tuple[float, ...], ...]:
    if rows == []:
        return ()
    widths = (
        {len(row) if isinstance(row, list) else 0 for row in rows}
        if (isinstance(rows, list))
        else {0}
    )
    if len(widths) != 1 or not 0 < max(widths) <= MAX_OUTPUTS or len(rows) != num_texts:
        raise TableError(
            f"the effects of {what} must be {num_texts} lists of 1 to {MAX_OUTPUTS} numbers; "
            f"got {quote(rows)}."
        )
    return tuple(tuple(check_finite(x, f"an effect of {what}") for x in row) for row in rows)

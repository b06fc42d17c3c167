"""Streams of one key do not meet each other, nor the keys that users split off."""

import jax

from bbalpha.engine import streams

NUMBERS = {name: number for name, number in vars(streams).items() if name.isupper()}


def test_streams_differ():
    assert len(NUMBERS) == 5
    assert len(set(NUMBERS.values())) == 5


def test_streams_are_words_that_no_split_reaches():
    """`split(key, n)[i]` is `fold_in(key, i)`, so only a split of four billion would meet one."""
    key = jax.random.key(0)
    split = jax.random.key_data(jax.random.split(key, 3))
    folded = [jax.random.key_data(jax.random.fold_in(key, index)) for index in range(3)]
    assert split.tolist() == [words.tolist() for words in folded]
    assert all(2**32 - 10 < number < 2**32 for number in NUMBERS.values())

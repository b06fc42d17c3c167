"""A short run of the fuzzer of tables."""

from fuzz.fuzz_tables import FUZZER


def test_mutated_tables_are_refused_or_give_finite_numbers():
    part = FUZZER.part(0, first=0, end=60)
    assert part["problems"] == []
    assert part["outcomes"]["refused"] > 10
    assert part["outcomes"]["trained on and predicted"] > 3

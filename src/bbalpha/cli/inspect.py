"""`bbalpha inspect`: the contents of a model file."""

from bbalpha.cli.doors import plain_warnings
from bbalpha.cli.options import Json, ModelFile
from bbalpha.cli.paths import check_input
from bbalpha.cli.printing import print_facts, print_json


def inspect_model(model_file: ModelFile, json: Json = False) -> None:
    """Show what a model file contains.

    \b
    bbalpha inspect houses.safetensors
    bbalpha inspect houses.safetensors --json
    """  # noqa: D301
    check_input(model_file)

    from bbalpha.cli.header import facts_in_words, facts_of_file

    with plain_warnings(json):
        facts = facts_of_file(model_file)
    if json:
        print_json(facts)
    else:
        print_facts(facts_in_words(facts))

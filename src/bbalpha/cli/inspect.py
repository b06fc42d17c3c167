"""`bbalpha inspect`: the content of a model file."""

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

    from bbalpha.cli.describe import facts_in_words, facts_of_model
    from bbalpha.cli.saved import model_of, read_estimator

    estimator, table = read_estimator(model_file)
    model = None if table is None else model_of(model_file, estimator, table)
    facts = facts_of_model(model_file, estimator, model)
    if json:
        print_json(facts)
    else:
        print_facts(facts_in_words(facts, model))

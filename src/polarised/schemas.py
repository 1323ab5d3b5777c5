"""What every result looks like as JSON: one versioned schema for each, which ``to_dict`` and ``--json`` keep to.

A result names its schema, such as ``"schema": "polarised.diagnosis/1"``. Within a version fields may be added, but none
is removed, renamed or given another meaning; that makes a new version. Numbers that JSON lacks are the texts ``"inf"``,
``"-inf"`` and ``"nan"``.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from polarised.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["SCHEMAS", "Field", "Schema", "json_schema", "stamp", "validate"]

Number = int | float | Literal["inf", "-inf", "nan"]
Pair = tuple[Number, Number]
Row = dict[str, bool | int | float | str | None]


class Field(NamedTuple):
    """One field of a result: its type, what it is, and whether only some results have it.

    Args:
        type: Its type, in Python's notation.
        about: What it is.
        optional: Whether it may be missing: commands add paths of what they wrote.
    """

    type: Any
    about: str
    optional: bool = False


class Schema(NamedTuple):
    """What one result looks like.

    Args:
        version: Raised when a field goes, or changes its name or meaning.
        about: What the result is, and what makes it.
        fields: Its fields by name.
    """

    version: int
    about: str
    fields: Mapping[str, Field]


_PAGE = Field(str | None, "The page that was written, if one was.", True)
_DIRECTORY = Field(str, "The folder that was written.", True)
_DIAGNOSIS = {
    "name": Field(str, "What the model is called."),
    "headline": Field(str, "The finding in a sentence."),
    "reading": Field(str, "What was taken as what."),
    "advice": Field(list[str], "What to do about it, a sentence each."),
    "recommended": Field(dict[str, str | list[int]], "The representation to use, and of which variables."),
    "inputs": Field(int, "How many inputs the types rest on."),
    "rule": Field(Literal["used", "relative", "standard"], "The rule of the types."),
    "alpha": Field(float, "The threshold of the types."),
    "active": Field(list[int], "The active variables."),
    "mixed": Field(list[int], "The mixed variables."),
    "passive": Field(list[int], "The passive variables."),
    "doubtful": Field(list[int], "Those whose use the evidence does not settle."),
    "why": Field(list[str], "The reason for each type, in the order of the variables."),
    "groups": Field(list[dict[str, str | list[int]]], "Groups of latents: name, variables, headline; none as a rule."),
    "variables": Field(list[Row], "A row for each variable: the columns of Diagnosis.table."),
    "scores": Field(list[Row], "Mean against sample: metric, representation, variables, value."),
    "decoder_use": Field(list[Row] | None, "What the decoder loses without each variable, in nats."),
    "downstream": Field(list[Row] | None, "Accuracy of predicting factors by subset of variables."),
    "other_rules": Field(list[Row] | None, "Which variables other rules count as used."),
    "sensitivity": Field(list[Row] | None, "The type of each variable over a grid of thresholds."),
    "provenance": Field(dict[str, Any], "How the numbers were made: command, versions, settings, citation."),
    "page": _PAGE,
    "directory": _DIRECTORY,
}
_PRUNING = {
    "keep": Field(list[int], "The variables that were kept."),
    "dropped": Field(list[int], "Those that were not."),
    "images": Field(int, "The inputs it was measured on."),
    "parameters": Field(Pair, "The parameters before and after."),
    "distortion": Field(Pair, "-log p(x|z) at the mean in nats, before and after."),
    "sampled_distortion": Field(Pair, "The same at a sample."),
    "rate": Field(Pair, "The KL in nats, before and after."),
    "encodings": Field(Number, "The largest change of a kept mean or log-variance."),
    "outputs": Field(Number, "The largest change of an output, against the dropped variables at their constants."),
}

SCHEMAS: Mapping[str, Schema] = {
    "diagnosis": Schema(1, "One model's variables: `Diagnosis.to_dict`, `polarised diagnose`, `train`.", _DIAGNOSIS),
    "demonstration": Schema(
        1,
        "A diagnosis with the proof of a pruning: `polarised demo`.",
        {
            **_DIAGNOSIS,
            "pruning": Field(dict[str, Any] | None, "What pruning changed: the fields of a pruning report."),
        },
    ),
    "pruning": Schema(
        1,
        "A smaller model and its proof: `PrunedModel.to_dict`, `polarised prune`.",
        {
            **_PRUNING,
            "passive_but_kept": Field(list[int], "Passive variables that were kept because that is in doubt."),
            "accuracy": Field(Pair | None, "Accuracy of predicting the factors, before and after."),
            "remarks": Field(list[str], "What was assumed of the likelihood, and what else is to be known."),
            "model": Field(str, "The file or folder of the smaller model.", True),
        },
    ),
    "pruned_weights": Schema(
        1,
        "Weights of somebody's network, cut: `PrunedWeights.to_dict`, `polarised prune --mean-head`.",
        {
            **{name: _PRUNING[name] for name in ("keep", "dropped", "parameters")},
            "model": Field(str, "The file of the smaller weights.", True),
        },
    ),
    "forecast": Schema(
        1,
        "What the spectrum of the data says of a VAE to be trained: `Forecast.to_dict`, `polarised forecast`.",
        {
            "beta": Field(float, "The weight of the KL."),
            "variance": Field(float | None, "The decoder variance."),
            "latents": Field(int, "The number of latents."),
            "likelihood": Field(str, "The likelihood."),
            "reduction": Field(str, "How the loss adds up."),
            "alpha": Field(float, "The threshold of the types."),
            "threshold": Field(Number, "The eigenvalue above which a variable pays."),
            "rows": Field(int, "The inputs the spectrum is of."),
            "values": Field(int, "The numbers of one input."),
            "active": Field(int, "How many variables will be active."),
            "mixed": Field(int, "How many will be mixed."),
            "passive": Field(int, "How many will be passive."),
            "undecided": Field(int, "How many eigenvalues lie near the threshold."),
            "case": Field(str, "Which case of the theory this is."),
            "cluster_gain": Field(Number | None, "What clusters in the data may add."),
            "explained": Field(Number, "The share of the variance explained."),
            "rate": Field(Number, "The KL in nats."),
            "loss": Field(Number | None, "The loss in nats."),
            "optimal_variance": Field(Number | None, "The best decoder variance."),
            "largest_beta": Field(Number, "The largest beta that keeps a variable alive."),
            "eigenvalues": Field(list[Number], "The eigenvalues of the data."),
            "total_variance": Field(Number, "Their sum, over all of them."),
            "curve": Field(dict[str, list[Number]], "Counts over beta."),
            "sentence": Field(str, "The forecast in a sentence."),
            "notes": Field(list[str], "What to bear in mind."),
            "plot": Field(str | None, "The picture that was written.", True),
        },
    ),
    "cure": Schema(
        1,
        "Cause, trials and winner for a collapsed model: `Cure.to_dict`, `polarised cure`.",
        {
            "cause": Field(str, "The cause that was found."),
            "because": Field(str, "The cause in words."),
            "evidence": Field(dict[str, Any], "What it rests on."),
            "before": Field(dict[str, Any] | None, "How the given model does on test data."),
            "after": Field(dict[str, Any] | None, "How the winner does."),
            "trials": Field(list[dict[str, Any]], "Every cure that was tried."),
            "winner": Field(str, "The name of the trial that won."),
            "change": Field(str, "What to change in one's own code."),
            "recipe": Field(dict[str, Any], "The same as settings of this library."),
            "refusal": Field(str, "Why nothing was done, or nothing helped."),
            "directory": _DIRECTORY,
            "page": _PAGE,
        },
    ),
    "evaluation": Schema(
        1,
        "Scores of the literature: `polarised evaluate`.",
        {
            "target": Field(str, "What was scored."),
            "seed": Field(int, "Of everything drawn."),
            "scores": Field(list[Row], "Metric, representation, value, and how to read it."),
        },
    ),
    "report": Schema(
        1,
        "A page: `polarised report`, `polarised study publish`.",
        {"page": Field(str, "The file."), "bytes": Field(int, "Its size.", True)},
    ),
    "dimensions": Schema(
        1,
        "How many latents a dataset needs: `polarised dimensions`.",
        {
            "intrinsic_dimension": Field(Number, "The intrinsic dimension of the data."),
            "one_shot": Field(dict[str, Any], "The variables alive in over-sized runs."),
            "fondue": Field(dict[str, Any] | None, "The search for a size."),
            "plot": Field(str | None, "The picture that was written.", True),
        },
    ),
    "datasets": Schema(
        1,
        "The catalogue of datasets: `polarised datasets list`.",
        {
            "folder": Field(str, "Where they are kept."),
            "datasets": Field(list[dict[str, Any]], "The fields of a `Description` each."),
        },
    ),
    "dataset": Schema(
        1,
        "One dataset: `polarised datasets prepare`, `polarised datasets show`.",
        {
            "name": Field(str, "Its name."),
            "images": Field(int, "How many images it has.", True),
            "shape": Field(list[int], "The shape of one.", True),
            "path": Field(str, "The contact sheet that was written.", True),
        },
    ),
    "citations": Schema(
        1,
        "The works a run or a study rests on: `polarised cite`.",
        {"keys": Field(list[str], "Their keys."), "bibtex": Field(str, "Their entries.")},
    ),
    "plan": Schema(
        1,
        "What a study costs and can decide: `polarised study plan`.",
        {
            "runs": Field(int, "How many runs."),
            "steps": Field(int, "How many training steps."),
            "core_hours": Field(Number, "On one core of this machine."),
            "gpu_hours": Field(Number, "On a GPU, of the runs that ask for one."),
            "common": Field(str, "What all kinds of run share."),
            "kinds": Field(list[dict[str, Any]], "The cost of each kind of run."),
            "workers": Field(int, "How many runs at a time."),
            "days": Field(Number, "How long that takes."),
            "decidable": Field(list[dict[str, Any]], "The smallest effect each claim can tell."),
            "outlook": Field(str, "What to expect of its runs."),
        },
    ),
    "status": Schema(
        1,
        "Where the runs of a study stand: `StudyStatus.to_dict`, `polarised study status`.",
        {
            **{name: Field(int, f"How many runs are {name}.") for name in ("done", "running", "waiting", "failed")},
            "failures": Field(dict[str, str], "The failed runs and why they failed."),
        },
    ),
    "outcome": Schema(
        1,
        "What became of a study: `StudyOutcome.to_dict`, `polarised study`.",
        {
            "folder": Field(str, "Its folder or address."),
            "total": Field(int, "How many runs it has."),
            "done": Field(int, "How many are done."),
            "failed": Field(int, "How many failed."),
            "results": Field(str | None, "The tidy table."),
            "shard": Field(str | None, "The share of the runs that was to be done."),
            "measured": Field(bool, "Whether trained models were measured."),
            "page": _PAGE,
        },
    ),
    "results": Schema(1, "The table of a study: `polarised study collect`.", {"results": Field(str, "The file.")}),
    "doctor": Schema(
        1,
        "Damaged files of a study: `polarised study doctor`.",
        {"findings": Field(list[dict[str, Any]], "Run, file, what is wrong, the remedy, whether it is repaired.")},
    ),
    "verification": Schema(
        1,
        "Verdicts on claims: `Verification.to_dict`, `polarised study verify`.",
        {
            "headline": Field(str, "The counts in a sentence."),
            "summary": Field(list[Row], "How many verdicts have each word, by paper and method."),
            "holds": Field(dict[str, dict[str, int]], "For each claim: in how many of how many it holds."),
            "verdicts": Field(list[dict[str, Any]], "Every verdict with its numbers."),
        },
    ),
}
"""Every result that is written as JSON, by name."""


def stamp(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with the name and version of its schema in front.

    Args:
        name: The name of the schema.
        values: The fields of the result.

    Returns:
        The result as ``to_dict`` and ``--json`` give it.

    >>> stamp("results", {"results": "results.parquet"})
    {'schema': 'polarised.results/1', 'results': 'results.parquet'}
    """
    return {"schema": f"polarised.{name}/{SCHEMAS[name].version}", **values}


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a result, for validators of other languages.

    Args:
        name: The name of the schema.

    Returns:
        The schema (draft 2020-12).

    Raises:
        ConfigError: If there is no such schema.

    >>> json_schema("results")["required"]
    ['schema', 'results']
    """
    return _model(name).model_json_schema()


def validate(result: Mapping[str, Any]) -> str:
    """Check a result against the schema it names, and return the schema's name.

    Args:
        result: What ``to_dict`` or ``--json`` gave.

    Returns:
        The name of the schema.

    Raises:
        DataError: If it names none, or does not keep to it.

    >>> validate({"schema": "polarised.results/1", "results": "results.parquet"})
    'results'
    """
    import pydantic

    named = str(result.get("schema", ""))
    name = named.removeprefix("polarised.").partition("/")[0]
    if name not in SCHEMAS or named != f"polarised.{name}/{SCHEMAS[name].version}":
        known = ", ".join(f"polarised.{each}/{schema.version}" for each, schema in SCHEMAS.items())
        raise DataError(f"expected a result that names its schema ({known}), got {named or 'none'}")
    try:
        _model(name).model_validate(result)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DataError(f"expected a result that keeps to {named}, at {place}: {first['msg']}") from error
    return name


@cache
def _model(name: str) -> "type[BaseModel]":
    import pydantic

    if name not in SCHEMAS:
        raise ConfigError(f"expected the name of a schema ({', '.join(SCHEMAS)}), got {name!r}")
    version, about, fields = SCHEMAS[name]
    # A model of pydantic has an attribute called schema of its own.
    named = pydantic.Field(alias="schema", description="The name and version of this schema.")
    given: dict[str, Any] = {"schema_": (Literal[f"polarised.{name}/{version}"], named)}
    for field, each in fields.items():
        given[field] = (each.type, pydantic.Field(None if each.optional else ..., description=each.about))
    settings = pydantic.ConfigDict(extra="forbid", title=f"polarised.{name}/{version}")
    made: type[BaseModel] = pydantic.create_model(name, __config__=settings, __doc__=about, **given)
    return made

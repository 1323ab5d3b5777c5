"""The JSON of every result: one versioned schema each, which ``to_dict`` and ``--json`` follow.

A result names its schema, such as ``"schema": "polarised.diagnosis/1"``. Within a version fields may be added, but none
is removed, renamed or given another meaning; that requires a new version. Numbers that JSON lacks are the strings
``"inf"``, ``"-inf"`` and ``"nan"``.
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
    """One field of a result: its type, its description, and whether only some results have it.

    Args:
        type: Its type, in Python's notation.
        about: Its description.
        optional: Whether it may be missing: commands add the paths of the files they wrote.
    """

    type: Any
    about: str
    optional: bool = False


class Schema(NamedTuple):
    """The format of one result.

    Args:
        version: Increased if a field is removed, renamed or given another meaning.
        about: What the result is, and what returns it.
        fields: Its fields by name.
    """

    version: int
    about: str
    fields: Mapping[str, Field]


_PAGE = Field(str | None, "The written page, if any.", True)
_DIRECTORY = Field(str, "The written folder.", True)
_DIAGNOSIS = {
    "name": Field(str, "The name of the model."),
    "headline": Field(str, "The result in one sentence."),
    "reading": Field(str, "How the input was interpreted."),
    "advice": Field(list[str], "What to do, one sentence each."),
    "recommended": Field(dict[str, str | list[int]], "The representation and the variables to use."),
    "inputs": Field(int, "The number of inputs behind the types."),
    "rule": Field(Literal["used", "relative", "standard"], "The rule of the types."),
    "alpha": Field(float, "The threshold of the types."),
    "active": Field(list[int], "The active variables."),
    "mixed": Field(list[int], "The mixed variables."),
    "passive": Field(list[int], "The passive variables."),
    "doubtful": Field(list[int], "Those for which the evidence does not decide whether they are used."),
    "why": Field(list[str], "The reason for each type, in the order of the variables."),
    "groups": Field(list[dict[str, str | list[int]]], "Groups of latents: name, variables, headline; usually none."),
    "variables": Field(list[Row], "A row for each variable: the columns of Diagnosis.table."),
    "scores": Field(list[Row], "Mean and sample compared: metric, representation, variables, value."),
    "decoder_use": Field(list[Row] | None, "The loss of the decoder without each variable, in nats."),
    "downstream": Field(list[Row] | None, "Accuracy of predicting factors by subset of variables."),
    "other_rules": Field(list[Row] | None, "The variables that other rules count as used."),
    "sensitivity": Field(list[Row] | None, "The type of each variable over a grid of thresholds."),
    "provenance": Field(dict[str, Any], "How the numbers were computed: command, versions, settings, citation."),
    "page": _PAGE,
    "directory": _DIRECTORY,
}
_PRUNING = {
    "keep": Field(list[int], "The kept variables."),
    "dropped": Field(list[int], "The dropped variables."),
    "images": Field(int, "The number of inputs."),
    "parameters": Field(Pair, "The number of parameters before and after."),
    "distortion": Field(Pair, "-log p(x|z) at the mean in nats, before and after."),
    "sampled_distortion": Field(Pair, "The same at a sample."),
    "rate": Field(Pair, "The KL in nats, before and after."),
    "encodings": Field(Number, "The largest change of a kept mean or log-variance."),
    "outputs": Field(Number, "The largest change of an output, compared with dropped variables at their constants."),
}

SCHEMAS: Mapping[str, Schema] = {
    "diagnosis": Schema(1, "One model's variables: `Diagnosis.to_dict`, `polarised diagnose`, `train`.", _DIAGNOSIS),
    "demonstration": Schema(
        1,
        "A diagnosis with the proof of a pruning: `polarised demo`.",
        {
            **_DIAGNOSIS,
            "pruning": Field(dict[str, Any] | None, "The effect of pruning: the fields of a pruning report."),
        },
    ),
    "pruning": Schema(
        1,
        "A smaller model and its proof: `PrunedModel.to_dict`, `polarised prune`.",
        {
            **_PRUNING,
            "passive_but_kept": Field(list[int], "Passive variables that were kept because they are doubtful."),
            "accuracy": Field(Pair | None, "Accuracy of predicting the factors, before and after."),
            "remarks": Field(list[str], "The assumption on the likelihood, and further remarks."),
            "model": Field(str, "The file or folder of the smaller model.", True),
        },
    ),
    "pruned_weights": Schema(
        1,
        "The pruned weights of a user's network: `PrunedWeights.to_dict`, `polarised prune --mean-head`.",
        {
            **{name: _PRUNING[name] for name in ("keep", "dropped", "parameters")},
            "model": Field(str, "The file of the smaller weights.", True),
        },
    ),
    "forecast": Schema(
        1,
        "The forecast for a VAE from the spectrum of the data: `Forecast.to_dict`, `polarised forecast`.",
        {
            "beta": Field(float, "The weight of the KL."),
            "variance": Field(float | None, "The decoder variance."),
            "latents": Field(int, "The number of latents."),
            "likelihood": Field(str, "The likelihood."),
            "reduction": Field(str, "How the loss is summed."),
            "alpha": Field(float, "The threshold of the types."),
            "threshold": Field(Number, "The eigenvalue above which a variable reduces the loss."),
            "rows": Field(int, "The number of inputs behind the spectrum."),
            "values": Field(int, "The number of values of one input."),
            "active": Field(int, "The number of active variables."),
            "mixed": Field(int, "The number of mixed variables."),
            "passive": Field(int, "The number of passive variables."),
            "undecided": Field(int, "The number of eigenvalues near the threshold."),
            "case": Field(str, "The case of the theory that applies."),
            "cluster_gain": Field(Number | None, "The gain of clusters in the data."),
            "explained": Field(Number, "The share of the variance explained."),
            "rate": Field(Number, "The KL in nats."),
            "loss": Field(Number | None, "The loss in nats."),
            "optimal_variance": Field(Number | None, "The best decoder variance."),
            "largest_beta": Field(Number, "The largest beta that keeps a variable alive."),
            "eigenvalues": Field(list[Number], "The eigenvalues of the data."),
            "total_variance": Field(Number, "The sum of all eigenvalues."),
            "curve": Field(dict[str, list[Number]], "Counts over beta."),
            "sentence": Field(str, "The forecast in a sentence."),
            "notes": Field(list[str], "Assumptions and limits."),
            "plot": Field(str | None, "The written picture.", True),
        },
    ),
    "cure": Schema(
        1,
        "Cause, trials and winner for a collapsed model: `Cure.to_dict`, `polarised cure`.",
        {
            "cause": Field(str, "The cause."),
            "because": Field(str, "The cause in words."),
            "evidence": Field(dict[str, Any], "The evidence for it."),
            "before": Field(dict[str, Any] | None, "The outcome of the given model on test data."),
            "after": Field(dict[str, Any] | None, "The outcome of the winner."),
            "trials": Field(list[dict[str, Any]], "Every tried cure."),
            "winner": Field(str, "The name of the winning trial."),
            "change": Field(str, "What to change in the code of the user."),
            "recipe": Field(dict[str, Any], "The same as settings of this library."),
            "refusal": Field(str, "Why nothing was done, or nothing helped."),
            "directory": _DIRECTORY,
            "page": _PAGE,
        },
    ),
    "evaluation": Schema(
        1,
        "Scores by the metrics of the literature: `polarised evaluate`.",
        {
            "target": Field(str, "The scored target."),
            "seed": Field(int, "The seed of all random draws."),
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
        "The number of latents that a dataset needs: `polarised dimensions`.",
        {
            "intrinsic_dimension": Field(Number, "The intrinsic dimension of the data."),
            "one_shot": Field(dict[str, Any], "The alive variables in over-sized runs."),
            "fondue": Field(dict[str, Any] | None, "The search for a size."),
            "plot": Field(str | None, "The written picture.", True),
        },
    ),
    "datasets": Schema(
        1,
        "The catalogue of datasets: `polarised datasets list`.",
        {
            "folder": Field(str, "The data folder."),
            "datasets": Field(list[dict[str, Any]], "The fields of a `Description` for each."),
        },
    ),
    "dataset": Schema(
        1,
        "One dataset: `polarised datasets prepare`, `polarised datasets show`.",
        {
            "name": Field(str, "Its name."),
            "images": Field(int, "The number of images.", True),
            "shape": Field(list[int], "The shape of one image.", True),
            "path": Field(str, "The written contact sheet.", True),
        },
    ),
    "citations": Schema(
        1,
        "The works that a run or a study is based on: `polarised cite`.",
        {"keys": Field(list[str], "Their keys."), "bibtex": Field(str, "Their entries.")},
    ),
    "plan": Schema(
        1,
        "The cost of a study and what it can decide: `polarised study plan`.",
        {
            "runs": Field(int, "The number of runs."),
            "steps": Field(int, "The number of training steps; the maximum if runs end once they have settled."),
            "least_steps": Field(int, "The number of training steps if all runs settle as early as they may."),
            "core_hours": Field(Number, "The hours on one core of this machine, for `steps`."),
            "gpu_hours": Field(Number, "The hours on a GPU, for the runs that need one."),
            "least_hours": Field(Number, "The hours on a core or GPU, for `least_steps`."),
            "common": Field(str, "The settings that all kinds of run share."),
            "kinds": Field(list[dict[str, Any]], "The cost of each kind of run."),
            "workers": Field(int, "The number of runs at a time."),
            "days": Field(Number, "The days this takes."),
            "decidable": Field(list[dict[str, Any]], "The smallest effect that each claim can detect."),
            "outlook": Field(str, "The expected results of its runs."),
        },
    ),
    "status": Schema(
        1,
        "The state of the runs of a study: `StudyStatus.to_dict`, `polarised study status`.",
        {
            **{name: Field(int, f"The number of {name} runs.") for name in ("done", "running", "waiting", "failed")},
            "failures": Field(dict[str, str], "The failed runs and the reasons."),
            "at_work": Field(list[Row], "The running runs: `run`, `step` of `steps`, `host`, `steps_per_second`."),
        },
    ),
    "outcome": Schema(
        1,
        "The outcome of a study: `StudyOutcome.to_dict`, `polarised study`.",
        {
            "folder": Field(str, "Its folder or address."),
            "total": Field(int, "The number of its runs."),
            "done": Field(int, "The number of completed runs."),
            "failed": Field(int, "The number of failed runs."),
            "results": Field(str | None, "The tidy table."),
            "shard": Field(str | None, "The requested share of the runs."),
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
            "summary": Field(list[Row], "The number of verdicts of each kind, by paper and method."),
            "holds": Field(dict[str, dict[str, int]], "For each claim: how many cases, and in how many it holds."),
            "verdicts": Field(list[dict[str, Any]], "Every verdict with its numbers."),
        },
    ),
}
"""Every result that is written as JSON, by name."""


def stamp(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result, preceded by the name and version of its schema.

    Args:
        name: The name of the schema.
        values: The fields of the result.

    Returns:
        The result as ``to_dict`` and ``--json`` return it.

    >>> stamp("results", {"results": "results.parquet"})
    {'schema': 'polarised.results/1', 'results': 'results.parquet'}
    """
    return {"schema": f"polarised.{name}/{SCHEMAS[name].version}", **values}


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a result, for validators in other languages.

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
    """Check a result against the schema it names, and return the name of the schema.

    Args:
        result: The output of ``to_dict`` or ``--json``.

    Returns:
        The name of the schema.

    Raises:
        DataError: If it names no schema, or does not follow it.

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
        raise DataError(f"expected a result that follows {named}, at {place}: {first['msg']}") from error
    return name


@cache
def _model(name: str) -> "type[BaseModel]":
    import pydantic

    if name not in SCHEMAS:
        raise ConfigError(f"expected the name of a schema ({', '.join(SCHEMAS)}), got {name!r}")
    version, about, fields = SCHEMAS[name]
    # A pydantic model already has an attribute called schema.
    named = pydantic.Field(alias="schema", description="The name and version of this schema.")
    given: dict[str, Any] = {"schema_": (Literal[f"polarised.{name}/{version}"], named)}
    for field, each in fields.items():
        given[field] = (each.type, pydantic.Field(None if each.optional else ..., description=each.about))
    settings = pydantic.ConfigDict(extra="forbid", title=f"polarised.{name}/{version}")
    made: type[BaseModel] = pydantic.create_model(name, __config__=settings, __doc__=about, **given)
    return made

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from polarised import metrics, registry
from polarised.errors import ConfigError, DataError
from polarised.regime import Encodings


def encodings(*, factors: bool = True) -> Encodings:
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(5), np.arange(6), indexing="ij"), axis=-1).reshape(-1, 3)
    order = np.random.default_rng(0).permutation(len(grid))
    grid = grid[order]
    mean = np.column_stack([grid, np.zeros(len(grid))]).astype(np.float32)
    return Encodings(mean, variance=np.tile([0.01, 0.01, 0.01, 1.0], (len(grid), 1)), factors=grid if factors else None)


def test_every_metric_has_a_value_and_a_reading() -> None:
    table = metrics.evaluate(encodings())
    assert table["value"].is_finite().all()
    assert set(table["metric"]) == {out.name for entry in registry.records("metric") for out in entry.outputs}
    assert table["reading"].str.ends_with(".").all()
    found = {(row["metric"], row["representation"]): row["value"] for row in table.iter_rows(named=True)}
    assert found["mig", "mean"] > 0.9
    assert found["factor_vae_score", "mean"] == 1.0
    assert found["random_accuracy", "mean"] < found["dci_informativeness", "mean"]


def test_without_factors_only_metrics_that_need_none_are_scored() -> None:
    table = metrics.evaluate(encodings(factors=False))
    assert "mig" not in set(table["metric"])
    assert "total_correlation" in set(table["metric"])
    with pytest.raises(DataError, match="mig needs factors"):
        metrics.evaluate(encodings(factors=False), metrics="mig")


def test_choice_of_metrics_and_representation() -> None:
    table = metrics.evaluate(encodings(), metrics=["mig", "hoyer"], representation="mean")
    assert table["metric"].to_list() == ["hoyer", "mig"]
    with pytest.raises(ConfigError, match="did you mean 'mig'"):
        metrics.evaluate(encodings(), metrics="migg")
    with pytest.raises(ConfigError, match="representation"):
        metrics.evaluate(encodings(), metrics="mig", representation="means")  # type: ignore[arg-type]


def test_the_metric_of_another_package_is_in_the_table_with_its_reading() -> None:
    @registry.register("metric", title="largest mean", reading="The largest mean.", references=("Chen2018",))
    def largest(codes: np.ndarray) -> float:
        return float(codes.max())

    try:
        table = metrics.evaluate(encodings(factors=False), representation="mean")
        row = table.filter(table["metric"] == "largest").row(0, named=True)
        assert row == {"metric": "largest", "representation": "mean", "value": 5.0, "reading": "The largest mean."}
        assert registry.output("largest").title == "largest mean"
    finally:
        del registry._records["metric"]["largest"]


def test_a_lookup_needs_every_combination() -> None:
    whole = encodings()
    assert whole.factors is not None
    with pytest.raises(DataError, match="combinations"):
        metrics.represent_by_lookup(whole.mean[:-1], whole.factors[:-1])
    represent, sizes = metrics.represent_by_lookup(whole.mean, whole.factors)
    assert sizes == (4, 5, 6)
    np.testing.assert_array_equal(np.asarray(represent(whole.factors)), whole.mean)


def test_command(tmp_path) -> None:  # type: ignore[no-untyped-def]
    import typer

    from polarised.cli.look import evaluate

    app = typer.Typer()
    app.command()(evaluate)
    encodings().save(tmp_path / "encodings.npz")
    options = ["--metrics", "mig,hoyer"]
    shown = CliRunner().invoke(app, [str(tmp_path), *options])
    assert shown.exit_code == 0
    assert "hoyer" in shown.output
    machine = CliRunner().invoke(app, [str(tmp_path / "encodings.npz"), *options, "--json"])
    scores = json.loads(machine.output)["scores"]
    assert {score["metric"] for score in scores} == {"mig", "hoyer"}
    assert all(score["reading"] for score in scores)
    missing = CliRunner().invoke(app, [str(tmp_path / "nowhere")])
    assert isinstance(missing.exception, DataError)


@pytest.mark.parametrize("count", [40, 64])
def test_a_lookup_of_many_factors_is_refused_before_it_is_allocated(count: int) -> None:
    factors = np.random.default_rng(0).integers(2, size=(50, count))
    with pytest.raises(DataError, match=f"all {2**count} combinations of factors encoded, got 50"):
        metrics.represent_by_lookup(np.zeros((50, 1)), factors)


def test_a_variance_of_zero_excludes_only_the_information_about_the_input() -> None:
    certain = Encodings([[0.0, 1.0], [1.0, 0.0], [0.5, 0.1]], variance=[[0.1, 0.0]] * 3)
    assert set(metrics.evaluate(certain)["metric"]) == set(metrics.evaluate(encodings(factors=False))["metric"]) - {
        "index_information"
    }
    with pytest.raises(DataError, match="variance must be positive"):
        metrics.evaluate(certain, metrics="index_information")

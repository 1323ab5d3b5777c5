"""The data of the figures of a study: models of each dataset, split and whole factors, tables."""

from pathlib import Path

import numpy as np
import polars
import pytest
from tests.report.examples import example, tidy

from polarised.regime import Encodings
from polarised.report import papers
from polarised.report.figures import estimator_bias
from polarised.report.material import Material
from polarised.report.papers import (
    alpha_and_beta,
    bias_table,
    decomposition_sparsity,
    latents_of_factors,
    polarised_ivae,
    rtc_vae,
    split_and_whole,
)
from polarised.report.publish import publish, tables
from polarised.study.grid import load_study

METRICS = ("hoyer", "reconstruction", "mmd", "sap", "total_correlation", "pair_information", "excess_information")
TWO = "axes.dataset=[{name: dsprites, size: 32}, {name: color_dsprites}]"


def material(name: str, *settings: str, monkeypatch: pytest.MonkeyPatch) -> Material:
    """A study with all runs done, each with the same synthetic code."""
    study = load_study(name, scale="smoke", settings=settings)
    made, own = Material(Path("nowhere")), example(rows=300)
    labels = [{**point.labels, "run": point.run.name, "seed": 0} for point in study.points]
    measured = [
        {**label, "metric": metric, "representation": "mean", "variables": "full", "value": float(i)}
        for i, label in enumerate(labels)
        for metric in (
            "hoyer",
            "reconstruction",
            "mmd",
            "sap",
            "total_correlation",
            "pair_information",
            "excess_information",
        )
    ]
    counts = [
        {**label, "metric": metric, "representation": None, "variables": kind, "value": float(i)}
        for i, label in enumerate(labels)
        for metric in ("count", "count_relative", "count_standard")
        for kind in ("active", "mixed", "passive")
    ]
    made.__dict__.update(study=study, done=list(study.points), table=polars.DataFrame(measured + counts))
    monkeypatch.setattr(Material, "encodings", lambda self, point: own.encodings)
    monkeypatch.setattr(Material, "regime", lambda self, point: own.regime)
    monkeypatch.setattr(Material, "pictures", lambda self, point: own.pictures)
    monkeypatch.setattr(Material, "samples", lambda self, point: own.pictures.originals if own.pictures else None)
    return made


def test_models_of_every_dataset_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    method = "{objective: {name: Decomposition}, axes: {strength: {objective.alpha: [0, 3]}}}"
    few = f"axes.method={{γ 0.8: {method}}}"
    one, two = (
        [name for name, _ in decomposition_sparsity(material("decomposition_sparsity", *more, monkeypatch=monkeypatch))]
        for more in ((few,), (few, TWO))
    )
    assert one == ["figure_4", "magnitude_gamma_0.8_alpha_0", "magnitude_gamma_0.8_alpha_3"]
    assert two == [
        "figure_4",
        *(f"{name}_dsprites" for name in one[1:]),
        *(f"{name}_color_dsprites" for name in one[1:]),
    ]


def test_factorised_models_of_every_dataset_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    few = "axes.method={RTC-VAE: {objective: {name: RTCVAE}, axes: {strength: {objective.beta: [2, 20]}}}}"
    # Figures of one model take long to draw; only the choice of models matters here.
    monkeypatch.setattr(papers, "_of_model", lambda made, point, ending: [(f"pairs_{ending}", None)])
    monkeypatch.setattr(papers, "bias_table", lambda: bias_table(variables=(2,), batch_size=20, batches=1))
    names = [name for name, _ in rtc_vae(material("rtc_vae", few, TWO, monkeypatch=monkeypatch))]
    for dataset in ("dsprites", "color_dsprites"):
        assert {f"{stem}_{dataset}" for stem in ("figure_10_11_sap", "disintegration", "pairs_rtc_vae")} <= set(names)


def test_figures_of_an_ivae_are_numbered_as_in_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = list(polarised_ivae(material("polarised_ivae", monkeypatch=monkeypatch)))
    names = [name for name, _ in drawn]
    # A figure of one model names it.
    assert {figure.get_supxlabel() for _, figure in drawn[:4]} == {"iVAE, seed 0"}
    assert names[:4] == [
        "figure_1_passive_parameters",
        "figure_2_active_parameters",
        "figure_3_active_samples",
        "figure_4_passive_samples",
    ]


def test_the_richest_run_has_most_of_the_rarest_type(monkeypatch: pytest.MonkeyPatch) -> None:
    made = material("polarised_ivae", "axes.seed=2", monkeypatch=monkeypatch)
    last = [point for point in made.done if point.labels["method"] == "iVAE"][-1]
    assert made.richest("iVAE", kinds=("active", "passive")).run.name == last.run.name


def test_latents_of_a_factor_are_counted_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made = material("rtc_vae", monkeypatch=monkeypatch)
    table = latents_of_factors(made)
    encodings = made.encodings(made.done[0])
    assert table.height == len(made.done) * len(encodings.factor_names)
    own = table.filter(polars.col("factor") == encodings.factor_names[0])["value"].to_list()
    assert encodings.factors is not None
    squared = np.corrcoef(encodings.mean.T, encodings.factors[:, 0])[-1, :-1] ** 2
    assert set(own) == {float((squared > 0.1).sum())}


def test_a_code_without_split_factors_has_only_a_whole_factor() -> None:
    mean = np.random.default_rng(0).normal(size=(500, 2))
    code = Encodings(mean, variance=np.ones((500, 2)), factors=(mean > 0).astype(int), factor_names=["x", "y"])
    assert set(split_and_whole(code)) == {"whole"}
    assert split_and_whole(Encodings(mean, variance=np.ones((500, 2)))) == {}


def test_lines_and_grid_are_combined_to_one_plane() -> None:
    methods = ["beta", "beta", "alpha", "alpha, beta 3"]
    rows = polars.DataFrame({"method": methods, "strength": [3.0, 0.01, 20.0, 20.0], "value": [1.0, 2.0, 3.0, 4.0]})
    plane = alpha_and_beta(rows)
    assert plane.select("alpha", "beta", "value").rows() == [(0.0, 3.0, 1.0), (20.0, 0.0, 3.0), (20.0, 3.0, 4.0)]


def test_the_bias_is_that_of_the_metrics() -> None:
    table = bias_table(variables=(2, 6), batch_size=100, batches=1)
    means = {key[0]: own["value"].to_numpy() for key, own in table.group_by("estimator", maintain_order=True)}
    assert next(iter(means)) == "truth"
    np.testing.assert_allclose(means["MWS, 1/M"], means["MSS0"], atol=0.3)
    far = means["MWS, 1/(NM)"] - means["MWS, 1/M"]
    np.testing.assert_allclose(far, np.repeat([1, 5], 6) * np.log(50_000))
    assert len(estimator_bias(table).axes) == 2


def test_the_tables_hold_types_redundancy_and_what_is_left_without_passive() -> None:
    parts = tables(tidy())
    headings = [part for part in parts if part.startswith("### ")]
    assert headings == [
        "### Types and fit",
        "### Redundancy of the whole code",
        "### Redundancy without passive variables",
        "### Factors",
    ]
    types, whole, alive, factors = (part.splitlines() for part in parts[1::2])
    assert types[0] == "| method | strength | seeds | active | mixed | passive | reconstruction, nats (mean) |"
    assert "mutual information, nats (sampled)" in whole[0]
    assert "effective rank (mean)" in whole[0]
    assert "total correlation, nats (mean)" in alive[0]
    assert "accuracy (mean, all variables) | accuracy (mean, passive)" in factors[0]
    assert len(types) == len(alive) == 2 + 12
    passive = tidy().filter(
        polars.col("metric") == "count",
        polars.col("variables") == "passive",
        polars.col("method") == "BetaVAE",
        polars.col("strength") == 16.0,
    )["value"]
    line = next(line for line in types if line.startswith("| BetaVAE | 16 |"))
    assert f"| {passive.mean():.3g} ± {passive.std():.2g} |" in line


def test_a_number_of_few_seeds_shows_their_count() -> None:
    of_passive = (polars.col("metric") == "accuracy") & (polars.col("variables") == "passive")
    few = tidy().filter(~of_passive | (polars.col("seed") == 0))
    factors = tables(few)[-1].splitlines()
    runs = few.filter(of_passive).select("method", "strength").n_unique()
    assert sum("(1) |" in line for line in factors[2:]) == runs > 0
    assert "(" not in tables(tidy())[-1].partition("---")[2]


def test_tables_of_several_datasets_name_them() -> None:
    both = polars.concat([tidy(), tidy().with_columns(dataset=polars.lit("cars3d"))])
    assert tables(both)[1].splitlines()[0].startswith("| dataset | method | strength |")
    assert "| cars3d | BetaVAE | 1 | 3 |" in tables(both)[1]


def test_a_published_folder_is_drawn_again_without_its_runs(tmp_path: Path) -> None:
    folder = tmp_path / "be_more_active"
    folder.mkdir()
    wasserstein = tidy().filter(polars.col("metric") == "total_correlation")
    more = wasserstein.with_columns(metric=polars.lit("wasserstein_correlation"))
    polars.concat([tidy(), more]).write_parquet(folder / "results.parquet")
    (folder / "README.md").write_text("as it was")
    assert publish(folder, folder).read_text() == "as it was"
    drawn = {path.stem for path in folder.glob("*.png")}
    assert {"figure_6_downstream", "figure_7_14_types", "figure_8_15_17_total_correlation"} <= drawn
    # Figures of single models need their runs.
    assert not any("histograms" in name or "correlations" in name for name in drawn)
    again = tmp_path / "again"
    publish(folder, again)
    assert all((again / path.name).read_bytes() == path.read_bytes() for path in folder.glob("*.png"))

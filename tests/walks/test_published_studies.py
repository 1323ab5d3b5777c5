"""The studies of the papers from their YAML to the published page, on a few tiny runs of each."""

import json
from dataclasses import replace
from pathlib import Path

import polars
import pytest

from polarised.report.publish import publish
from polarised.study import execute
from polarised.study.grid import Study, load_study
from polarised.study.results import collect
from polarised.study.runner import enrol

FIGURES = {
    "be_more_active": {"figure_4_5_histograms", "figure_6_downstream", "figure_7_14_types", "figure_11_correlations"},
    "learning_dynamics": {"figure_12_correlated_pairs", "figure_13_correlations_over_training", "kl_over_training"},
    "nonlinear_ica": {"mcc", "mcc_spearman", "ivae_overview"},
    "decomposition_clustering": {
        f"{figure}_pinwheel_{kl}"
        for figure in ("figure_3_beta", "figure_3_alpha", "overlap", "alpha_beta")
        for kl in ("paper", "released_code")
    }
    | {"figure_6_prior"},
    "polarised_ivae": {"overview_ivae", "overview_vae", "types_relative", "types_standard"},
    "decomposition_alignment": {"figure_2_top", "figure_2_bottom", "figure_2_bottom_transported", "figure_5_student_t"},
    "decomposition_sparsity": {"figure_4", "magnitude_gamma_0.8_beta_1_alpha_0"},
    "rtc_vae": {"figure_2_estimators", "figure_3_4_total_correlation", "figure_10_11_sap", "disintegration"},
}
METRICS = {
    "be_more_active": {"count", "total_correlation", "accuracy"},
    "learning_dynamics": {"count", "total_correlation"},
    "nonlinear_ica": {"mcc", "mcc_spearman"},
    "decomposition_clustering": {"encoder_entropy", "overlap", "mmd", "inclusive_kl", "exclusive_kl"},
    "polarised_ivae": {"count_relative", "count_standard", "retyped", "miscalibration", "prior_driven", "permuting"},
    "decomposition_alignment": {"factor_vae_score", "factor_vae_score_transported", "encoder_entropy"},
    "decomposition_sparsity": {"hoyer", "mmd"},
    "rtc_vae": {"sap", "mig", "pair_information", "disintegrated_r2"},
}
LENGTHY = ("be_more_active", "decomposition_alignment", "decomposition_sparsity", "rtc_vae")


def ends(study: Study) -> Study:
    """Return a study with the first and the last run of each method alone."""
    first, last = {}, {}
    for point in study.points:
        first.setdefault(point.labels["method"], point)
        last[point.labels["method"]] = point
    chosen = {point.run.name: point for point in [*first.values(), *last.values()]}
    return replace(study, points=tuple(chosen.values()))


@pytest.mark.filterwarnings("ignore:the capacity reaches", "ignore:(alpha|beta) = . leaves")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LENGTHY else name for name in FIGURES]
)
def test_a_study_becomes_a_page(name: str, tmp_path: Path) -> None:
    settings = ["training.steps=8", "training.batch_size=16", "evaluation.examples=200"]
    study = ends(load_study(name, scale="smoke", settings=settings))
    root, out = tmp_path / "runs", tmp_path / "docs"
    enrol(study, root)
    for run in study.runs:
        execute(run, root)
    out.mkdir()
    (out / "notes.md").write_text("What did not reproduce.")
    page = publish(root, out).read_text()
    table = polars.read_parquet(out / "results.parquet")
    assert set(table["metric"]) >= METRICS[name]
    assert table["run"].n_unique() == len(study.points)
    assert table.equals(polars.read_parquet(collect(root)))
    drawn = {path.stem for path in out.glob("*.png")}
    assert drawn >= FIGURES[name]
    assert all(f"({stem}.png)" in page for stem in drawn)
    assert "What did not reproduce." in page
    assert str(tmp_path) not in page
    found = json.loads((out / "verdict.json").read_text())
    assert found["headline"] in page
    told = [verdict for verdict in found["verdicts"] if verdict["verdict"] != "not testable"]
    assert all(verdict["name"] in page for verdict in told)
    assert publish(root, out).read_text() == page
    # A run from before the decoder was asked puts a banner above the page.
    assert "Types by an earlier rule" not in page
    (root / study.runs[0].name / "decoder_use.parquet").unlink()
    assert "Types by an earlier rule" in publish(root, out).read_text()

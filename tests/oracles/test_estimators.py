"""The total-correlation estimators against the released implementations, and known truths."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polarised import metrics
from polarised.metrics import estimators

FOLDER = Path(__file__).parent / "estimators"
TC_CASES: dict[str, dict[str, Any]] = json.loads((FOLDER / "tc_cases.json").read_text())
ARRAYS = dict(np.load(FOLDER / "tc_cases.npz", allow_pickle=False))
BATCHES = [name for name, case in TC_CASES.items() if "estimators" in case]
HOYER = {
    name: case
    for name, case in json.loads((FOLDER / "mmd_hoyer_kl_cases.json").read_text()).items()
    if name.startswith("hoyer")
}


@pytest.mark.parametrize("name", ["mws", "mss0", "mss1", "eq10b"])
@pytest.mark.parametrize("case", BATCHES)
def test_weightings(case: str, name: str) -> None:
    expected = TC_CASES[case]["estimators"][name]
    z, mean = ARRAYS[f"{case}__z"], ARRAYS[f"{case}__mu"]
    variance = np.exp(ARRAYS[f"{case}__logvar"])
    found = getattr(estimators, name)(z, mean, variance, dataset_size=TC_CASES[case]["N"])
    np.testing.assert_allclose(found.log_density, ARRAYS[f"{case}__{name}__log_qz"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.log_product, ARRAYS[f"{case}__{name}__log_prod_qzj"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.log_own, ARRAYS[f"{case}__log_q_zx"], rtol=1e-9, atol=1e-9)
    assert found.total_correlation == pytest.approx(expected["tc_mean"], rel=1e-9, abs=1e-9)
    assert found.information == pytest.approx(expected["mi_mean"], rel=1e-9, abs=1e-9)
    assert found.dimension_wise_kl == pytest.approx(expected["dimwise_kl_mean"], rel=1e-9, abs=1e-9)
    rate = (ARRAYS[f"{case}__log_q_zx"] - ARRAYS[f"{case}__log_pz"]).mean()
    parts = found.total_correlation + found.information + found.dimension_wise_kl
    assert parts == pytest.approx(rate, rel=1e-9, abs=1e-9)


def test_exact_over_the_dataset() -> None:
    case = TC_CASES["full_dataset"]
    mean, z = ARRAYS["full_dataset__mu"], ARRAYS["full_dataset__z"]
    variance = np.exp(ARRAYS["full_dataset__logvar"])
    found = estimators.exact(z, mean, variance)
    assert -found.log_density.mean() == pytest.approx(case["joint_entropy"], rel=1e-9)
    assert -found.log_product.mean() == pytest.approx(sum(case["marginal_entropies"]), rel=1e-9)
    gap = sum(case["marginal_entropies"]) - case["joint_entropy"]
    assert found.total_correlation == pytest.approx(gap, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("case", json.loads((FOLDER / "gaussian_tc.json").read_text()), ids=lambda case: case["name"])
def test_gaussian_truth(case: dict[str, Any]) -> None:
    assert metrics.total_correlation_from_covariance(case["covariance"]) == pytest.approx(case["tc"], rel=1e-9)


@pytest.mark.parametrize("case", HOYER)
def test_hoyer(case: str) -> None:
    with np.load(FOLDER / "mmd_hoyer_kl_cases.npz", allow_pickle=False) as arrays:
        z = arrays[f"{case}__Z"]
    assert metrics.hoyer(z, normalised=False) == pytest.approx(HOYER[case]["hoyer_raw"], rel=1e-10)
    assert metrics.hoyer(z) == pytest.approx(HOYER[case]["hoyer_normalised"], rel=1e-10)


def test_bias_curve_of_cheng_figure_2() -> None:
    rows = json.loads((FOLDER / "fig2_reference.json").read_text())["rows"]
    chosen = [row for row in rows if row["batch"] == 500 and row["D"] in (2, 6) and row["det_corr"] in (0.1, 1.0)]
    assert len(chosen) == 4
    for row in chosen:
        table = estimators.total_correlation_bias_curve(
            variables=[row["D"]], determinants=[row["det_corr"]], batch_size=500, dataset_size=row["N"]
        )
        found = table.row(0, named=True)
        assert found["truth"] == pytest.approx(row["tc_true"], abs=1e-4)
        for name in ("mws", "mss0", "mss1"):
            assert found[name] == pytest.approx(row[name], abs=0.35), (row, name)


def test_entropy_bias_of_mathieu_appendix_c() -> None:
    table = estimators.entropy_bias(variables=[5], batch_sizes=[16, 256], dataset_size=20_000, rows=100)
    small, large = table["estimate"].to_list()
    assert small == pytest.approx(9.99, abs=0.3)
    assert large == pytest.approx(8.16, abs=0.3)
    assert table["entropy"][0] == pytest.approx(7.16, abs=0.3)
    assert table["limit"][0] == pytest.approx(10.98, abs=0.01)

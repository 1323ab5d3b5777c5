import pytest

from polarised.adapters.arrays import Names
from polarised.errors import DataError


def test_a_prior_spread_names_its_own_kind():
    names = Names.among(("mean", "variance", "prior_logvar"), "x")
    assert (names.prior_scale, names.prior_scale_kind) == ("prior_logvar", "log_variance")


def test_factors_and_means_have_several_names():
    names = Names.among(("Z_Mean", "latents_classes", "qz_v"), "x")
    assert (names.mean, names.scale, names.scale_kind, names.factors) == (
        "Z_Mean",
        "qz_v",
        "variance",
        "latents_classes",
    )


def test_the_error_for_a_missing_array_lists_those_present():
    with pytest.raises(DataError, match="it has codes, labels"):
        Names.among(("codes", "labels"), "x")
    with pytest.raises(DataError, match="it has nothing"):
        Names.among((), "x")


def test_of_two_scales_the_one_of_the_given_kind_is_used():
    offered = ("mean", "variance", "log_variance")
    assert Names.among(offered, "x", scale_kind="log_variance").scale == "log_variance"
    assert Names.among(offered, "x", scale_kind="variance").scale == "variance"
    # A name may be wrong about its own array.
    assert Names.among(("mean", "variance"), "x", scale_kind="log_variance").scale == "variance"


@pytest.mark.parametrize(
    ("file", "hint"),
    [
        ("codes.npz", r"np.savez\(file, mean=..., variance=...\)"),
        ("codes.npy", "x_mean.npy and x_variance.npy"),
        ("cells.h5ad", "in obsm as qz_m and qz_v"),
        ("codes.csv", "name the columns mean_0"),
        ("the mapping", "name them mean and variance"),
    ],
)
def test_the_error_says_how_to_name_the_arrays(file, hint):
    with pytest.raises(DataError, match=f"it has a column without a name, V; .*{hint}"):
        Names.among(("", "V"), file)

"""Images and their known factors; arrays are NumPy and nothing here needs torch."""

from polarised.data.catalogue import Description, contact_sheet, describe, prepare
from polarised.data.dataset import Batch, Dataset, FactorSpace, Images
from polarised.data.own import dataset_from_arrays, from_folder, from_npz
from polarised.data.published import cars3d, celeba, fashion_mnist, mnist, shapes3d, smallnorb
from polarised.data.sprites import color_dsprites, dsprites, noisy_dsprites, scream_dsprites
from polarised.data.synthetic import (
    LinearOptimum,
    linear_gaussian,
    nonlinear_ica,
    optimal_noise_variance,
    pinwheel,
    probabilistic_pca,
    two_populations,
)

__all__ = [
    "Batch",
    "Dataset",
    "Description",
    "FactorSpace",
    "Images",
    "LinearOptimum",
    "cars3d",
    "celeba",
    "color_dsprites",
    "contact_sheet",
    "dataset_from_arrays",
    "describe",
    "dsprites",
    "fashion_mnist",
    "from_folder",
    "from_npz",
    "linear_gaussian",
    "mnist",
    "noisy_dsprites",
    "nonlinear_ica",
    "optimal_noise_variance",
    "pinwheel",
    "prepare",
    "probabilistic_pca",
    "scream_dsprites",
    "shapes3d",
    "smallnorb",
    "two_populations",
]

"""Images and their known factors; arrays are NumPy and nothing here needs torch."""

from polarised.data.contact_sheet import contact_sheet
from polarised.data.dataset import Batch, Dataset, FactorSpace, Images
from polarised.data.datasets import *  # noqa: F403
from polarised.data.datasets import __all__ as _datasets
from polarised.data.datasets.own import from_arrays
from polarised.data.description import Description, describe, prepare
from polarised.data.linear_optimum import LinearOptimum, optimal_noise_variance, probabilistic_pca

__all__ = [
    "Batch",
    "Dataset",
    "Description",
    "FactorSpace",
    "Images",
    "LinearOptimum",
    "contact_sheet",
    "describe",
    "from_arrays",
    "optimal_noise_variance",
    "prepare",
    "probabilistic_pca",
    *_datasets,
]

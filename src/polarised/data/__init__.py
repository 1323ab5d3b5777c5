"""Images and their known factors; arrays are NumPy and nothing here needs torch."""

from polarised.data.dataset import Batch, Dataset, FactorSpace, Images
from polarised.data.datasets import dsprites

__all__ = ["Batch", "Dataset", "FactorSpace", "Images", "dsprites"]

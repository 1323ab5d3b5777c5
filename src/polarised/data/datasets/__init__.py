"""Every dataset by name; this list is the catalogue a config chooses from.

`polarised datasets` shows what each holds, whether it is ready, and how to get it.
"""

from polarised.data.datasets import digits, photographs, sprites_family
from polarised.data.datasets.digits import fashion_mnist, mnist
from polarised.data.datasets.own import from_folder, from_npz
from polarised.data.datasets.photographs import cars3d, celeba, shapes3d, smallnorb
from polarised.data.datasets.sprites_family import color_dsprites, dsprites, noisy_dsprites, scream_dsprites
from polarised.data.datasets.synthetic import linear_gaussian, nonlinear_ica, pinwheel, two_populations

__all__ = [
    "cars3d",
    "celeba",
    "color_dsprites",
    "dsprites",
    "fashion_mnist",
    "from_folder",
    "from_npz",
    "linear_gaussian",
    "mnist",
    "noisy_dsprites",
    "nonlinear_ica",
    "pinwheel",
    "scream_dsprites",
    "shapes3d",
    "smallnorb",
    "two_populations",
]

SOURCES = {**sprites_family.SOURCES, **photographs.SOURCES, **digits.SOURCES}
"""The published files of each dataset that has some."""

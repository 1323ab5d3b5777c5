"""Every dataset by name; this list is the catalogue a config chooses from."""

from polarised.data.datasets.sprites_family import dsprites

__all__ = ["dsprites"]

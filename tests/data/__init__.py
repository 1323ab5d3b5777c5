"""Tests of polarised.data, a package so that the laws can use its writers of published formats."""

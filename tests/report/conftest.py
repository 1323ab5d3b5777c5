import polars
import pytest

from polarised.diagnosis import Diagnosis
from report.examples import example, tidy


@pytest.fixture(scope="session")
def diagnosis() -> Diagnosis:
    return example()


@pytest.fixture(scope="session")
def table() -> polars.DataFrame:
    return tidy()

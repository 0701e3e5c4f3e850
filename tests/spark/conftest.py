"""One Spark session for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipeline.judging import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with local_session("tests", cores=1, small=True) as session:
        yield session

"""The compiled part, which an installation without a compiler does without; all else is in pyproject.toml."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension("fetcher._records", ["fetcher/_records.pyx"], depends=["fetcher/_checksums.h"], optional=True)
    ]
)

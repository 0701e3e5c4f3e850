"""A browser, which has to be there when servers have to."""

from __future__ import annotations

import shutil

import pytest

from tests.study.browser import Browser


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> Browser:
    found = shutil.which("chromium")
    if found is None:
        if request.config.getoption("--strict-servers"):
            pytest.fail("no chromium: `make test-study` installs it, see .ci/with-programs")
        pytest.skip("no chromium: `make test-study` installs it, see .ci/with-programs")
    return Browser(found)

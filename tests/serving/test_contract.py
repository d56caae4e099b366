"""The running API against its own OpenAPI document, with requests that schemathesis makes up."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serving.api_server import serving

pytestmark = pytest.mark.cluster

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("contract"), ["scorers=[vad]"]) as url:
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")


ROUTES = [("GET", "/healthz"), ("GET", "/v1/scorers"), ("POST", "/v1/score"), ("POST", "/v1/score/batch")]


def test_every_route_is_tried(document):
    found = [(one.ok().method.upper(), one.ok().path) for one in document.get_all_operations()]
    assert sorted(found) == sorted(ROUTES)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_answer_is_as_the_document_says(document, method, path):
    seen = []

    @given(case=document[path][method].as_strategy())
    @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def check(case):
        seen.append(case.call_and_validate(checks=CHECKS).status_code)

    check()
    assert seen
    assert set(seen) <= {200, 400, 415, 422}

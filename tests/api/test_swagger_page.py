"""Swagger UI and the description as they are served, without other hosts."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from registry.model.graph import Graph
from registry.openapi import swagger_ui
from registry.openapi.description import describe
from registry.openapi.swagger_ui import swagger_ui_version
from registry.resources import RESOURCES
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import Api

UI_URL = "/api/swagger/"


async def test_each_service_in_a_process_is_described_at_both_urls(serve: Serve) -> None:
    for api in (await serve(), await serve()):
        for name in ("swagger.json", "openapi.json"):
            response = await api.fetch(UI_URL + name)
            assert response.headers["Content-Type"].startswith("application/json")
            assert json.loads(response.text) == describe(Graph(RESOURCES), Settings())


async def test_swagger_ui_supports_head_and_ignores_range(api: Api) -> None:
    stylesheet = "swagger_ui_static/swagger-ui.css"
    for path in ("", "swagger.json", "openapi.json", stylesheet):
        get, head = await api.fetch(UI_URL + path), await api.fetch(UI_URL + path, "HEAD")
        assert head.status == get.status == 200
        for header in ("Content-Type", "Content-Length", "Content-Security-Policy"):
            assert head.headers[header] == get.headers[header]
    response = await api.fetch(UI_URL + stylesheet, Range="bytes=9999999-")
    assert (response.status, response.headers["Content-Type"]) == (200, "text/css")
    assert len(response.body) > 100_000
    assert (await api.fetch(UI_URL + stylesheet, If_Match='"other"')).status == 412
    for name in ("nothing", *("/", "", "/%00", "/%2e%2e/schema/schema.json", "/" + "a" * 300)):
        path = name if name == "nothing" else f"swagger_ui_static{name}"
        assert (await api.get(UI_URL + path)).status == 404


async def test_the_page_refers_to_no_other_host(api: Api) -> None:
    redirect = await api.fetch(UI_URL.rstrip("/"))
    assert (redirect.status, redirect.headers["Location"]) == (301, UI_URL)
    page = (await api.fetch(UI_URL)).text
    assert "//" not in re.sub(r"<!--.*?-->|// .*", "", page)
    assert '"validatorUrl": null' in page
    for name in re.findall(r'(?:src|href)="\./([^"]+)"', page):
        assert (await api.fetch(UI_URL + name)).status == 200, name
    bundle = (await api.fetch(f"{UI_URL}swagger_ui_static/swagger-ui-bundle.js")).text
    assert swagger_ui_version() in bundle


async def test_the_content_security_policy_allows_only_this_host(api: Api) -> None:
    for path in ("", "swagger.json", "swagger_ui_static/swagger-ui.css", "nothing"):
        response = await api.fetch(UI_URL + path)
        policy = response.headers["Content-Security-Policy"].split("; ")
        assert {"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"} <= {*policy}
        sources = {source for directive in policy for source in directive.split()[1:]}
        hashes = {source for source in sources if source.startswith("'sha256-")}
        assert sources - hashes == {"'none'", "'self'", "data:"}
        assert [value for value in policy if "data:" in value] == ["img-src 'self' data:"]
        # Only what the page itself contains: a script and a style sheet.
        inline = re.findall(r"<(?:script|style)>(.*?)</", response.text, re.DOTALL)
        assert len(inline) == (0 if path else 2)
        digests = (b64encode(sha256(text.encode()).digest()).decode() for text in inline)
        assert hashes == {f"'sha256-{digest}'" for digest in digests}
        assert path or not re.search(r" style=| on[a-z]+=", response.text)


async def test_installed_files_are_served(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "swagger-ui"
    monkeypatch.setattr(swagger_ui, "SWAGGER_UI", installed)
    bundled = swagger_ui_version()
    installed.mkdir()
    (installed / "VERSION").write_text("0.0.0\n")
    (installed / "swagger-ui.css").write_text("body {}")
    assert (bundled, swagger_ui_version()) == ("5.18.3", "0.0.0")
    api = await serve()
    assert (await api.fetch(UI_URL + "swagger_ui_static/swagger-ui.css")).text == "body {}"
    # The files of two versions are not mixed.
    assert (await api.get(UI_URL + "swagger_ui_static/swagger-ui-bundle.js")).status == 404

"""A new type is one declaration: routes, links, includes and the description follow."""

from __future__ import annotations

from marshmallow import Schema

from registry.model.attributes import Text
from registry.model.resource_type import Link, ResourceType
from registry.resources import RESOURCES
from tests.conftest import Serve
from tests.support import linkage_of, to_many


class MonitorSchema(Schema):
    model = Text(required=True, example="P27")


monitor = ResourceType(
    type="monitor",
    collection="monitors",
    schema=MonitorSchema,
    links=(Link(name="owner", target="person", foreign_key="person", inverse="monitors"),),
)


async def test_a_new_type_is_served(serve: Serve) -> None:
    api = await serve(resources=(*RESOURCES, monitor))
    grace = await api.person()
    await api.computer(owner=grace)
    created = await api.post("/monitors", {"type": "monitor", "attributes": {"model": "P27"}})
    assert (created.status, created.headers["Location"]) == (201, "/monitors/1")
    changed = await api.patch(
        f"/persons/{grace}",
        {"type": "person", "relationships": {"monitors": to_many("1", type="monitor")}},
    )
    assert linkage_of(changed.data) == {"monitors": to_many("1", type="monitor")}
    response = await api.get("/monitors?include=owner.computers&fields[monitor]=model,owner,person")
    assert response.data[0]["attributes"] == {"model": "P27"}
    assert response.included == [("person", grace), ("computer", "1")]
    response = await api.get(f"/persons/{grace}?include=computers,monitors")
    assert response.included == [("computer", "1"), ("monitor", "1")]
    assert (await api.get("/monitors/2")).status == 404


async def test_a_new_type_is_described(serve: Serve) -> None:
    api = await serve(resources=(*RESOURCES, monitor))
    async with api.client.get("/api/swagger/swagger.json") as response:
        description = await response.json()
    assert description["paths"]["/monitors"].keys() >= {"get", "post"}
    assert description["paths"]["/monitors/{id}"].keys() >= {"get", "patch"}
    assert "Monitor" in [tag["name"] for tag in description["tags"]]
    parameters = description["components"]["parameters"].values()
    assert "fields[monitor]" in [parameter["name"] for parameter in parameters]
    references = description["paths"]["/monitors"]["get"]["parameters"]
    assert {"$ref": "#/components/parameters/MonitorFields"} in references

"""Watching: a real server's graph, load and faults, and what is said when it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from playwright.async_api import Browser, Page

from motet.pipelines import Graph, build, load
from motet.pipelines.spec import PipelineSpec

from ..support.serving import serving
from .conftest import visit
from .test_layout import CONTRAST

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = {"model": "chat", "messages": [{"role": "user", "content": "Hello?"}]}


def answering(name: str = "chat", **node: Any) -> Graph:
    """A chat pipeline of one node on the bench's engine; two runs at once, three may wait."""
    llm = {
        "use": "motet.streaming.bench.engines:Answer",
        "scale": {"concurrency": 2},
        "queue": {"bound": 3},
        **node,
    }
    spec = {"name": name, "nodes": {"llm": llm}, "edges": ["input -> llm -> output"]}
    return build(PipelineSpec.model_validate(spec))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    slow = answering(options={"delay_s": 5})
    with serving(slow, answering("broken", options={"fail": True})) as url:
        yield url


async def cell(page: Page, pipeline: str, column: str) -> str:
    place = f"[aria-label='Pipeline {pipeline}'] td[data-label='{column}']"
    return await page.inner_text(place)


@pytest.mark.timeout(40)
async def test_load_waiting_and_refusals_show_as_they_happen(
    browser: Browser, address: str
) -> None:
    page = (await visit(browser, f"{address}/#watch", view="watch")).page
    await page.get_by_role("heading", name="All quiet.").wait_for()
    async with httpx.AsyncClient(base_url=address, timeout=20) as http:
        asked = [asyncio.create_task(http.post("/v1/chat/completions", json=ASK)) for _ in range(6)]
        await page.get_by_role("heading", name="Busy.").wait_for()
        assert await cell(page, "chat", "Active") == "2"
        assert await cell(page, "chat", "Waiting") == "3 of 3"
        assert await cell(page, "chat", "Refused") == "1"
        assert await page.locator(".node.at-work .node-load").inner_text() == (
            "2 of 2 active\n3 waiting"
        )
        label = await page.get_attribute(".node.at-work .spark", "aria-label")
        assert label == "Load over the last 5 minutes: now 5, at most 5"
        refused = [task.result().status_code for task in asked if task.done()]
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    assert refused == [429] or refused == [503]


@pytest.mark.timeout(40)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("wide", [True, False])
async def test_reads_well_at_both_widths(
    browser: Browser, address: str, scheme: str, wide: bool
) -> None:
    seen = await visit(browser, f"{address}/#watch", view="watch", wide=wide, color_scheme=scheme)
    await seen.page.wait_for_selector(".edge", state="attached")
    assert await seen.page.evaluate(CONTRAST) == []
    width, shown = await seen.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width <= shown
    current = await seen.page.inner_text("#views [aria-current=page]")
    assert current == "Watch"
    await seen.check_clean()


@pytest.mark.timeout(60)
async def test_versions_and_changed_graphs_show_as_they_come(
    browser: Browser, tmp_path: Path
) -> None:
    engines = "motet.streaming.bench.engines"
    nodes = {"llm": {"use": f"{engines}:Answer"}}
    file = tmp_path / "chat.yaml"
    spec: dict[str, Any] = {"name": "chat", "nodes": nodes, "edges": ["input -> llm -> output"]}
    file.write_text(yaml.safe_dump(spec))
    with serving(load(file)) as url:
        seen = await visit(browser, f"{url}/#watch", view="watch")
        await seen.page.wait_for_selector(".node")
        async with httpx.AsyncClient(base_url=url, timeout=20) as http:
            nodes["llm"]["options"] = {"text": "New."}  # type: ignore[assignment]
            file.write_text(yaml.safe_dump(spec))
            await http.post("/v1/admin/pipelines/chat/canary", json={"share": 0.25})
            await seen.page.get_by_text("canary, 25 %").wait_for()
            await seen.page.get_by_text("stable, 75 %").wait_for()
            await http.post("/v1/admin/pipelines/chat/canary/promote", json={})
            await seen.page.get_by_text("canary, 25 %").wait_for(state="detached")
            nodes["say"] = {"use": f"{engines}:Say"}
            spec["edges"] = ["input -> llm -> say -> output"]
            file.write_text(yaml.safe_dump(spec))
            assert (await http.post("/v1/admin/reload", json={})).status_code == 200
            await seen.page.locator(".node-name", has_text="say").wait_for()
            assert await seen.page.locator("section.pipeline").count() == 1
        await seen.check_clean()


@pytest.mark.timeout(40)
async def test_an_outage_is_said_and_the_last_state_stays(browser: Browser) -> None:
    with serving(answering()) as url:
        page = (await visit(browser, f"{url}/#watch", view="watch")).page
        await page.wait_for_selector(".node")
        await page.route("**/v1/status", lambda route: route.abort())
        await page.get_by_role("heading", name="No answer.").wait_for()
        assert await page.locator(".watch-view.stale .node").count() == 1
        await page.unroute("**/v1/status")
        await page.get_by_role("heading", name="All quiet.").wait_for()


@pytest.mark.timeout(40)
async def test_nothing_is_asked_while_nobody_looks(browser: Browser, address: str) -> None:
    page = (await visit(browser, f"{address}/#watch", view="watch")).page
    await page.wait_for_selector(".node")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    hide = (
        "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden,"
        " configurable: true }); document.dispatchEvent(new Event('visibilitychange')); }"
    )
    await page.evaluate(hide, True)
    await asyncio.sleep(0.3)  # what was under way
    asked.clear()
    await asyncio.sleep(1.3)
    assert asked == []
    async with page.expect_request("**/v1/status"):
        await page.evaluate(hide, False)


LAYOUT = """async (edges) => {
  const { columns, place } = await import("/page/watch/layout.js");
  const graph = columns(edges);
  const size = (name) => (name.length > 8 ? [118, 34] : [150, 138]);
  const placed = place(graph, size);
  return { ...graph, boxes: Object.fromEntries(placed.boxes), along: placed.along };
}"""


@pytest.mark.timeout(40)
async def test_a_graph_is_laid_out_in_its_order_without_overlap(
    browser: Browser, address: str
) -> None:
    page = (await visit(browser, f"{address}/#watch", view="watch")).page
    voice = [
        ["input", "vad"], ["vad", "turn"], ["turn", "asr"], ["asr", "conversation"],
        ["turn", "conversation"], ["conversation", "llm"], ["llm", "tts"],
        ["tts", "conversation"], ["llm", "conversation"],
    ]  # fmt: skip
    found: dict[str, Any] = await page.evaluate(LAYOUT, voice)
    assert found["columns"] == [
        ["input"], ["vad"], ["turn"], ["asr"], ["conversation"], ["llm"], ["tts"], ["reply"],
    ]  # fmt: skip
    fork = [["input", "a"], ["input", "b"], ["a", "c"], ["b", "c"], ["input", "c"]]
    found = await page.evaluate(LAYOUT, fork)
    assert [sorted(names) for names in found["columns"]] == [["input"], ["a", "b"], ["c"]]
    a, b = found["boxes"]["a"], found["boxes"]["b"]
    assert a["at"] == b["at"]
    assert abs(a["offset"] - b["offset"]) >= a["across"]
    for source, target in fork:
        before, after = found["boxes"][source], found["boxes"][target]
        assert before["at"] + before["along"] < after["at"], (source, target)

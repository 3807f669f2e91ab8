"""Making pictures and clips on the page, with the shipped model, and what savings won and cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Page

from motet.pipelines import load

from ..support.serving import serving
from .conftest import visit
from .test_layout import CONTRAST

pytestmark = pytest.mark.asyncio(loop_scope="module")

pytest.importorskip("diffusers")

CONFIGS = Path(__file__).parents[2] / "configs"
MADE = ".made-facts div"

SEEN = """() => {
  window.shown = new Set();
  const picture = document.querySelector(".frame img");
  const seen = (records) => {
    for (const { oldValue } of records) if (oldValue) window.shown.add(oldValue);
    window.shown.add(picture.src);
  };
  new MutationObserver(seen).observe(picture, {
    attributeFilter: ["src"], attributeOldValue: true,
  });
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, database: str) -> Iterator[str]:
    graphs = [load(CONFIGS / f"{name}.yaml") for name in ("images", "videos")]
    data = tmp_path_factory.mktemp("data")
    with serving(*graphs, data_dir=data, database_url=database) as url:
        yield url


async def facts(page: Page) -> dict[str, str]:
    names = await page.locator(".made-facts dt").all_inner_texts()
    return dict(zip(names, await page.locator(".made-facts dd").all_inner_texts(), strict=True))


async def wish(page: Page, prompt: str, **fields: str) -> None:
    for name, value in fields.items():
        await page.locator(f"[name={name}]").fill(value)
    await page.fill("[name=prompt]", prompt)


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_picture_is_previewed_made_and_its_savings_are_measured(
    browser: Browser, address: str
) -> None:
    seen = await visit(browser, f"{address}/#create", view="create")
    page = seen.page
    await page.evaluate(SEEN)
    await wish(page, "a red apple", steps="8", seed="3", guidanceTo="4")
    async with page.expect_request("**/v1/images/generations") as asked:
        await page.press("[name=prompt]", "Enter")
    body = json.loads((await asked.value).post_data or "{}")
    start, stop = body["guidance_skip"]["interval"]
    assert (int(start * 8), int(stop * 8)) == (0, 4)
    await page.wait_for_selector(MADE)
    told = await facts(page)
    assert (told["Seed"], told["Steps"], told["Denoiser rows saved"]) == ("3", "8", "4 of 16")
    assert await page.evaluate("window.shown.size") == 4  # three previews, then the picture
    await page.get_by_role("button", name="Measure what each saving cost").click()
    await page.get_by_text("Likeness is").wait_for()
    rows = await page.locator(".costs tbody tr").all_inner_texts()
    full, skipped = (row.split("\t") for row in rows)
    assert full[0].strip() == "Nothing saved"
    assert full[1] == "100 %"
    assert full[4] == "itself"
    assert skipped[1] == "75 %"
    assert 5 < float(skipped[4].removesuffix(" dB")) < 80
    await seen.check_looks(CONTRAST)
    await seen.check_clean()


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_clip_is_made_and_nothing_of_it_stays_on_the_server(
    browser: Browser, address: str
) -> None:
    page = (await visit(browser, f"{address}/#create", view="create", wide=False)).page
    await wish(page, "a rocket flying up", steps="2")
    await page.get_by_label("A clip").check()
    await page.get_by_role("button", name="Make it").click()
    await page.wait_for_selector(MADE, timeout=60_000)
    assert (await facts(page))["Size"] == "96x96, 2 s"
    plays = "document.querySelector('.frame video').videoWidth === 96"
    without = "document.querySelector('.easel .hint').textContent.includes('H.264')"
    await page.wait_for_function(f"() => {plays} || {without}")
    async with httpx.AsyncClient(base_url=address) as http:
        for _ in range(50):
            left = (await http.get("/v1/videos")).json()["data"]
            if left == []:
                break
            await asyncio.sleep(0.1)
    assert left == []


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_stopping_stops_the_server_too_and_refusals_are_said(
    browser: Browser, address: str
) -> None:
    page = (await visit(browser, f"{address}/#create", view="create")).page
    await wish(page, "a blue car", steps="100")
    await page.get_by_label("A clip").check()
    await page.press("[name=prompt]", "Enter")
    await page.wait_for_selector(".bar[value]")
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("button", name="Make it").wait_for()
    async with httpx.AsyncClient(base_url=address) as http:
        for _ in range(100):
            pipelines = (await http.get("/v1/status")).json()["pipelines"]
            active = sum(node["active"] for one in pipelines for node in one["nodes"])
            if active == 0:
                break
            await asyncio.sleep(0.1)
    assert active == 0
    assert await page.inner_text(".asking [role=alert]") == ""
    await page.get_by_label("A picture").check()
    await wish(page, "a blue car", steps="2", size="90000x90000")
    await page.press("[name=prompt]", "Enter")
    await page.get_by_text("90000").wait_for()
    assert "90000" in await page.inner_text(".asking [role=alert]")


INTERVALS = """async () => {
  const { Interval } = await import("/page/create/interval.js");
  const found = [];
  for (const steps of [1, 4, 7, 28, 30, 49, 50]) {
    const slider = new Interval();
    slider.setSteps(steps);
    for (let low = 0; low <= steps; low += 1) {
      for (let high = low; high <= steps; high += 3) {
        slider.low.value = low;
        slider.high.value = high;
        found.push([steps, low, high, ...slider.value]);
      }
    }
  }
  return found;
}"""


@pytest.mark.timeout(40)
async def test_the_handles_mean_the_very_steps_that_the_server_takes(
    browser: Browser, address: str
) -> None:
    page = (await visit(browser, f"{address}/#create", view="create")).page
    for steps, low, high, start, stop in await page.evaluate(INTERVALS):
        assert 0 <= start <= stop <= 1
        assert (int(start * steps), int(stop * steps)) == (low, high)
    await page.focus("[name=guidanceTo]")
    for _ in range(3):
        await page.keyboard.press("ArrowLeft")
    said = await page.inner_text(".interval output")
    assert said == "Steps 1 to 27 of 30; the other 3 cost half."
    assert await page.locator(".ticks .on").count() == 27

"""The page as a page: both widths, both schemes, the keyboard, and what it says when it can't."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.async_api import Browser

from motet.pipelines import parse

from ..support.serving import serving
from .conftest import visit

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONTRAST = """() => {
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const found = numbers(getComputedStyle(node).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
    if (!own || !node.checkVisibility() || node.matches(".unseen, .skip, option")) continue;
    const pair = [light(numbers(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (ratio < 4.5) poor.push(`${node.className || node.tagName}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.mark.timeout(40)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("wide", [True, False])
async def test_fits_reads_well_and_is_clean(
    browser: Browser, address: str, scheme: str, wide: bool
) -> None:
    seen = await visit(browser, address, wide=wide, color_scheme=scheme)
    page = seen.page
    width, shown = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width <= shown
    assert await page.evaluate(CONTRAST) == []
    await page.click("[aria-label=Settings]")
    assert await page.evaluate(CONTRAST) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= shown
    small = await page.evaluate(
        "[...document.querySelectorAll('button')].filter((b) => b.checkVisibility() &&"
        " Math.min(b.offsetWidth, b.offsetHeight) < 44).map((b) => b.ariaLabel)"
    )
    assert small == []
    await seen.check_clean()


@pytest.mark.timeout(40)
async def test_everything_is_reached_by_keyboard_and_focus_is_seen(
    browser: Browser, address: str
) -> None:
    page = (await visit(browser, address)).page
    reached: list[str] = []
    for _ in range(5):
        await page.keyboard.press("Tab")
        name, outline = await page.evaluate(
            "() => { const n = document.activeElement; const ring = n.closest('.typing') ?? n;"
            " return [n.ariaLabel || n.textContent, getComputedStyle(ring).outlineStyle]; }"
        )
        reached.append(name)
        assert outline != "none", name
    assert reached == [
        "Skip to the content",
        "Settings",
        "Talk",
        "Type instead of speaking",
        "Send",
    ]
    await page.focus("[aria-label=Settings]")
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.closest('dialog') !== null")
    await page.keyboard.press("Escape")
    assert await page.evaluate("document.activeElement.ariaLabel") == "Settings"


@pytest.mark.timeout(40)
async def test_settings_are_kept_and_a_mode_shows_only_its_own(
    browser: Browser, address: str
) -> None:
    page = (await visit(browser, address)).page
    await page.click("[aria-label=Settings]")
    assert await page.is_hidden("[name=eagerness]")
    await page.select_option("[name=mode]", "semantic_vad")
    assert await page.is_hidden("[name=silenceMs]")
    await page.select_option("[name=eagerness]", "high")
    await page.fill("[name=instructions]", "Be brief.")
    await page.press("[name=instructions]", "Tab")
    await page.reload()
    session = await page.evaluate(
        "import('/page/voice/settings.js').then((m) => m.Settings.load().session())"
    )
    assert session["instructions"] == "Be brief."
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "semantic_vad",
        "eagerness": "high",
        "create_response": True,
        "interrupt_response": True,
    }


REFUSALS = {
    "NotFoundError": "No microphone was found",
    "NotAllowedError": "The microphone is blocked",
    "NotReadableError": "The microphone can't be opened",
}


@pytest.mark.timeout(40)
@pytest.mark.parametrize("error", list(REFUSALS))
async def test_says_plainly_why_there_is_no_microphone(
    browser: Browser, address: str, error: str
) -> None:
    seen = await visit(browser, address)
    await seen.page.evaluate(
        "(name) => { navigator.mediaDevices.getUserMedia ="
        " () => Promise.reject(new DOMException('told', name)); }",
        error,
    )
    await seen.page.focus("button.talk")
    await seen.page.keyboard.press("Space")
    await seen.page.wait_for_selector(".problem h2")
    assert await seen.page.inner_text(".problem h2") == REFUSALS[error]
    assert await seen.page.get_attribute(".talk-view", "data-state") == "idle"
    assert await seen.page.evaluate(CONTRAST) == []
    await seen.check_clean()


@pytest.mark.timeout(40)
async def test_says_that_a_microphone_needs_a_secure_page(browser: Browser, address: str) -> None:
    page = (await visit(browser, address.replace("localhost", "insecure.test"))).page
    await page.click("button.talk")
    await page.wait_for_selector(".problem h2")
    assert "secure" in await page.inner_text(".problem h2")


@pytest.mark.timeout(40)
async def test_once_the_key_is_given_what_is_served_is_shown(browser: Browser) -> None:
    text = "name: p\nnodes: {echo: {use: 'fakes:Echo'}}\nedges: [input -> echo -> output]\n"
    with serving(parse(text), api_keys=("mk-right",)) as url:
        page = (await visit(browser, url, view="key")).page
        await page.get_by_role("heading", name="This server asks for a key.").wait_for()
        assert await page.locator("#views a").all_inner_texts() == ["Key"]
        assert await page.evaluate(CONTRAST) == []
        await page.get_by_label("API key").fill("mk-wrong")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="That key was not accepted.").wait_for()
        await page.get_by_label("API key").fill("mk-right")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".watch-view")
        await page.get_by_text("built in").wait_for()
        await page.evaluate("sessionStorage.clear()")
        await page.wait_for_selector(".key-view")

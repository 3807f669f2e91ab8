"""Payloads in shared memory: they arrive whole, and nothing of them is left."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from motet.components.errors import BadInput
from motet.components.frames import Audio, Image, ImagePart, Message, Prompt
from motet.components.wire import motet_pb2 as pb
from motet.components.wire.blobs import BlobStore
from motet.components.wire.codec import Codec
from motet.components.wire.folders import OwnedFolder


def test_large_payloads_travel_in_shared_memory_and_leave_nothing(tmp_path: Path) -> None:
    sender, receiver = BlobStore(root=tmp_path), BlobStore(root=tmp_path)
    picture = np.random.default_rng(1).integers(0, 255, (512, 512, 3), np.uint8)
    message = pb.Frame()
    Codec(sender).encode(Image(picture), message)
    assert message.ByteSize() < 200
    frame = Codec(receiver).decode(message)
    assert isinstance(frame, Image)
    sender.close()
    np.testing.assert_array_equal(frame.pixels, picture)
    prompt = Prompt((Message("user", "look", (ImagePart(picture.tobytes()),)),))
    message = pb.Frame()
    Codec(receiver).encode(prompt, message)
    assert len(list(receiver.folder.iterdir())) == 2
    Codec(receiver).discard(message)
    assert len(list(receiver.folder.iterdir())) == 1
    receiver.close()
    assert list(tmp_path.iterdir()) == []


def test_small_payloads_stay_on_the_stream(tmp_path: Path) -> None:
    store = BlobStore(root=tmp_path)
    message = pb.Frame()
    Codec(store).encode(Audio(np.zeros(320, np.int16), 16000), message)
    assert message.audio.pcm.data.WhichOneof("place") == "inline"
    store.close()


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "motet-shm-a/../b", "x", ""])
def test_only_names_of_shared_payloads_are_opened(tmp_path: Path, name: str) -> None:
    store = BlobStore(root=tmp_path)
    with pytest.raises(BadInput, match="no shared payload"):
        store.take(name, 10)
    with pytest.raises(BadInput, match="is gone"):
        store.take("motet-shm-abc/1", 10)
    store.close()


def test_the_folder_of_a_killed_process_is_swept_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    code = (
        "import os, sys; from pathlib import Path;"
        "from motet.components.wire.blobs import BlobStore;"
        "s = BlobStore(root=Path(sys.argv[1])); s.put(memoryview(bytes(100_000)));"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -9
    assert len(list(tmp_path.glob("*/1"))) == 1
    living = BlobStore(root=tmp_path)
    assert list(tmp_path.glob("*/1")) == []
    other = BlobStore(root=tmp_path)
    assert living.folder.is_dir()
    living.close()
    other.close()


def test_folders_made_at_once_are_all_there(tmp_path: Path) -> None:
    """Each maker sweeps; none may take the folder that another has just made."""

    def make() -> list[OwnedFolder]:
        return [OwnedFolder("own-", tmp_path) for _ in range(40)]

    with ThreadPoolExecutor(8) as pool:
        made = [one for some in pool.map(lambda _: make(), range(8)) for one in some]
    assert all((one.path / "lock").exists() for one in made)
    for one in made:
        one.close()
    assert list(tmp_path.iterdir()) == []

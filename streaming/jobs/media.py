"""Files of what a job makes: pictures as they were asked for, clips with two previews."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...components.frames import Image, VideoClip
from ..images.coding import MEDIA_TYPES, encoded
from ..videos.coding import spritesheet, still, thumbnail, write_mp4
from .results import PREVIEW
from .store import Json


def write(folder: Path, frame: Image | VideoClip, options: Mapping[str, Any]) -> list[Json]:
    """Write what came into the folder, and describe the files, the main one first. Blocks."""
    height, width = frame.pixels.shape[-3:-1]
    facts: Json = {"index": frame.index, "width": width, "height": height}
    facts["meta"] = dict(frame.meta)
    if isinstance(frame, VideoClip):
        return _clip(folder, frame, facts)
    chosen = options.get("output_format") or "png"
    data = encoded(frame.pixels, chosen, options.get("output_compression"))
    return [_kept(folder, f"{frame.index}.{chosen}", MEDIA_TYPES[chosen], data, facts)]


def show(folder: Path, preview: Image) -> None:
    """Write a picture on the way, in one step, since it may be read at any time. Blocks."""
    name = f"{PREVIEW}{int(preview.meta.get('preview', 0)):03}"
    (folder / f".{name}").write_bytes(still(preview.pixels))
    (folder / f".{name}").rename(folder / f"{name}.webp")


def _clip(folder: Path, clip: VideoClip, facts: Json) -> list[Json]:
    name = f"{clip.index}.mp4"
    write_mp4(folder / name, clip.pixels, clip.fps)
    frames = len(clip.pixels)
    main: Json = {"name": name, "media_type": "video/mp4", **facts}
    main["bytes"] = (folder / name).stat().st_size
    main |= {"frames": frames, "fps": clip.fps, "seconds": frames / clip.fps}
    small, sheet = thumbnail(clip.pixels), spritesheet(clip.pixels)
    beside: Json = {"index": clip.index, "meta": {}}
    return [
        main,
        _kept(folder, f"{clip.index}-thumbnail.webp", "image/webp", small, beside),
        _kept(folder, f"{clip.index}-spritesheet.jpg", "image/jpeg", sheet, beside),
    ]


def _kept(folder: Path, name: str, media_type: str, data: bytes, facts: Json) -> Json:
    (folder / name).write_bytes(data)
    return {"name": name, "media_type": media_type, "bytes": len(data), **facts}

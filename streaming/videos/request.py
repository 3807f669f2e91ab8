"""What a client asks of `/v1/videos`: OpenAI's parameters, and ours beside them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from ...components.errors import BadInput
from ...components.frames import Generate
from ..dataurl import data_of
from ..images.coding import parsed_size
from ..images.request import Reference, Wishes


class VideoRequest(Wishes):
    """The fields of `POST /v1/videos`, as JSON or as a form.

    Without `seconds` a clip is as long as the pipeline makes it. `frames`, `fps` and `previews` are
    ours: so many pictures on the way, of which the thumbnail is the newest until the clip is made.
    """

    prompt: str = Field(min_length=1, max_length=32_000)
    model: str | None = None
    seconds: float | None = Field(default=None, gt=0, le=600)
    size: str | None = None
    input_reference: Reference | None = None
    frames: int | None = Field(default=None, ge=1, le=100_000)
    fps: float | None = Field(default=None, gt=0, le=120)
    previews: int | None = Field(default=None, ge=0, le=16)

    @field_validator("size")
    @classmethod
    def _readable(cls, size: str | None) -> str | None:
        try:
            parsed_size(size)
        except BadInput as error:
            raise PydanticCustomError("size", "{said}", {"said": error.message}) from error
        return size

    def frame(self, image: bytes | None = None) -> Generate:
        """The request as a frame; `image` came as a file.

        Raises:
            BadInput: the reference can't be read.
        """
        width, height = parsed_size(self.size)
        if self.input_reference is not None:
            image = data_of(self.input_reference.image_url, "input_reference")
        options: dict[str, Any] = self.options()
        if self.seconds is not None:
            options["seconds"] = self.seconds
        return Generate(
            self.prompt,
            self.negative_prompt,
            1,
            width,
            height,
            frames=self.frames,
            fps=self.fps,
            steps=self.steps,
            guidance=self.guidance,
            seed=self.seed,
            image=image,
            strength=self.strength,
            previews=self.previews or 0,
            options=options,
        )


class RemixRequest(BaseModel):
    """The body of `POST /v1/videos/{id}/remix`: everything else stays as it was."""

    model_config = ConfigDict(extra="forbid")

    prompt: str = Field(min_length=1, max_length=32_000)

"""What a client asks of `/v1/images/…`: OpenAI's parameters, and ours beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from ...components.errors import BadInput
from ...components.frames import Generate
from ..dataurl import data_of
from ..upload import Form
from .coding import PictureFormat, parsed_size

EFFORT = {
    "low": 0.5,
    "medium": 1.0,
    "standard": 1.0,
    "high": 1.5,
    "hd": 1.5,
    "xhigh": 2.0,
    "max": 2.0,
}
Quality = Literal["auto", "low", "medium", "standard", "high", "hd", "xhigh", "max"]


class Wishes(BaseModel):
    """Ours, for pictures and clips alike. `guidance_skip` and `cache` as in the pipeline file.

    `seed` of the first picture; the others count on from it.
    """

    model_config = ConfigDict(extra="forbid")

    negative_prompt: str | None = Field(default=None, max_length=32_000)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    steps: int | None = Field(default=None, ge=1, le=1000)
    guidance: float | None = Field(default=None, ge=0, le=100)
    strength: float | None = Field(default=None, gt=0, le=1)
    guidance_skip: dict[str, Any] | None = None
    cache: dict[str, Any] | Literal[False] | None = None

    def options(self) -> dict[str, Any]:
        """What goes into `Generate.options`."""
        given = {"guidance_skip": self.guidance_skip, "cache": self.cache}
        return {name: value for name, value in given.items() if value is not None}


class Reference(BaseModel):
    """A picture to start from, as an object; only data: URLs."""

    model_config = ConfigDict(extra="forbid")

    image_url: str


class ImageRequest(Wishes):
    """The body of `/v1/images/generations`.

    `quality` scales the pipeline's number of steps. `progress` adds our event
    `image_generation.progress` to a stream. What no model here can do is refused.
    """

    prompt: str = Field(min_length=1, max_length=32_000)
    model: str | None = None
    n: Annotated[int, Field(ge=1, le=10)] | None = None
    size: str | None = None
    quality: Quality | None = None
    background: Literal["auto", "opaque", "transparent"] | None = None
    output_format: Literal["png", "jpeg", "webp", "gif", "svg"] | None = None
    output_compression: Annotated[int, Field(ge=0, le=100)] | None = None
    moderation: Literal["low", "auto"] | None = None
    partial_images: Annotated[int, Field(ge=0, le=3)] | None = None
    response_format: Literal["url", "b64_json"] | None = None
    stream: bool | None = None
    style: Literal["vivid", "natural"] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    frame_count: int | None = None
    frame_duration_ms: int | None = None
    svg: Any = None
    complexity: str | None = None
    input_fidelity: Literal["high", "low"] | None = None
    progress: bool = False

    @model_validator(mode="wrap")
    @classmethod
    def _every_fault(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Tell what can't be made here beside what can't be read, each by its field."""
        known = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        wrong = [
            InitErrorDetails(
                type=PydanticCustomError("impossible", "{said}", {"said": said}),
                loc=(field,),
                input=known.get(field),
            )
            for field, said in impossible(known)
        ]
        try:
            made = handler(data)
        except ValidationError as error:
            read = [
                InitErrorDetails(
                    type=PydanticCustomError("unreadable", "{said}", {"said": flaw["msg"]})
                    if flaw["type"] not in ("extra_forbidden", "missing")
                    else flaw["type"],
                    loc=flaw["loc"],
                    input=flaw["input"],
                )
                for flaw in error.errors()
            ]
            raise ValidationError.from_exception_data(cls.__name__, [*read, *wrong]) from error
        if wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return made

    @property
    def file_format(self) -> PictureFormat:
        """Of the answer's pictures."""
        chosen = self.output_format
        return chosen if chosen in ("jpeg", "webp") else "png"

    def frame(self, image: bytes | None = None) -> Generate:
        """The request as a frame.

        Raises:
            BadInput: the size can't be read.
        """
        width, height = parsed_size(self.size)
        options = self.options()
        if self.quality not in (None, "auto"):
            options["effort"] = EFFORT[str(self.quality)]
        return Generate(
            self.prompt,
            self.negative_prompt,
            self.n or 1,
            width,
            height,
            steps=self.steps,
            guidance=self.guidance,
            seed=self.seed,
            image=image,
            strength=self.strength,
            previews=self.partial_images or 0,
            options=options,
        )


class EditRequest(ImageRequest):
    """The JSON body of `/v1/images/edits`; in a form the picture comes as a file."""

    images: list[Reference] = Field(min_length=1, max_length=1)

    def edited(self) -> Generate:
        """The request as a frame.

        Raises:
            BadInput: the picture can't be read.
        """
        return self.frame(data_of(self.images[0].image_url, "images"))


def impossible(asked: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What of a request can be read and not be made here, by its field."""
    wrong: list[tuple[str, str]] = []
    file_format, stream = asked.get("output_format"), _truth(asked.get("stream"))
    if asked.get("background") == "transparent":
        said = "transparent pictures aren't made here, opaque and auto are"
        wrong.append(("background", said))
    if file_format in ("gif", "svg"):
        wrong.append(("output_format", f"{file_format} isn't made here; png, jpeg, webp are"))
    elif file_format in (None, "png") and asked.get("output_compression") not in _WHOLE:
        wrong.append(("output_compression", "goes with jpeg and webp"))
    for name in ("style", "frame_count", "frame_duration_ms", "svg", "complexity"):
        if asked.get(name) is not None:
            wrong.append((name, "no model here has that"))
    if asked.get("input_fidelity") is not None:
        wrong.append(("input_fidelity", "give `strength` (0..1) instead; less keeps more"))
    if asked.get("partial_images") not in (None, 0, "0") and not stream:
        wrong.append(("partial_images", "goes with stream"))
    if stream and asked.get("response_format") == "url":
        wrong.append(("response_format", "a stream has b64_json, no url"))
    try:
        parsed_size(asked["size"] if isinstance(asked.get("size"), str) else None)
    except BadInput as error:
        wrong.append(("size", error.message.removeprefix("size: ")))
    return wrong


_WHOLE = (None, 100, "100")


def _truth(value: Any) -> bool:
    """What a form's or a JSON body's switch says."""
    return value is True or str(value).lower() in ("true", "1", "yes", "on")


Kind = type[BaseModel]


def from_form(form: Form, kind: Kind) -> Any:
    """A request from a form's fields; objects and `false` come as JSON text.

    Raises:
        BadInput: with every fault.
    """
    values: dict[str, Any] = {}
    for raw, value in form.fields:
        name = raw.removesuffix("[]")
        if name in values:
            raise BadInput(f"{name} is given twice", param=name)
        values[name] = loaded(value) if name in ("guidance_skip", "cache") else value
    return validated(kind, values)


def loaded(text: str) -> Any:
    """JSON where it is some, else the text, for the check to complain of."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def validated(kind: Kind, values: Mapping[str, Any]) -> Any:
    """A request of that kind.

    Raises:
        BadInput: with every fault.
    """
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        flaws = error.errors(include_url=False, include_input=False)
        known = ", ".join(kind.model_fields)
        said = [
            f"{'.'.join(map(str, flaw['loc']))}: {flaw['msg']}"
            + (f" (known: {known})" if flaw["type"] == "extra_forbidden" else "")
            for flaw in flaws
        ]
        first = flaws[0]["loc"]
        raise BadInput("; ".join(said), param=str(first[0]) if first else None) from error

"""Prompts to tokens by the model's own chat template, with a placeholder for every picture row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from jinja2 import TemplateError
from transformers import AutoTokenizer

from ..errors import BadInput, MissingRequirement
from ..frames import Message, Prompt
from ..interleave import pieces
from ..vlm import Family, Picture, placeholders
from .chat import Json, tool_json


class PromptWriter:
    """One model's tokenizer and template; safe to use from several threads. `ends` are the tokens
    that end an answer.

    Raises:
        MissingRequirement: the model has no tokenizer, or no chat template and none is given.
    """

    def __init__(
        self, folder: Path, *, family: Family | None, image_token: int, template: str | None
    ) -> None:
        tokenizers: Any = AutoTokenizer
        try:
            self._tokenizer: Any = tokenizers.from_pretrained(str(folder), local_files_only=True)
        except (OSError, ValueError) as error:
            raise MissingRequirement(
                f"{folder.name}: no tokenizer ({str(error)[:100]})", where="model"
            ) from error
        self._family: Family | None = family
        self._template = template or template_of(folder, self._tokenizer)
        self._placeholder = ""
        if family is not None:
            self._placeholder = str(self._tokenizer.convert_ids_to_tokens(image_token))
        self.knows_tools = "tools" in self._template
        self.ends = ends_of(folder, self._tokenizer)

    def decode(self, ids: list[int]) -> str:
        """Text of tokens, without special ones."""
        return str(
            self._tokenizer.decode(
                ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    def token_text(self, token: int) -> str:
        """One token as text, special ones too."""
        return str(self._tokenizer.decode([token], clean_up_tokenization_spaces=False))

    @property
    def tokenizer(self) -> Any:
        """The tokenizer itself, for what must know all tokens."""
        return self._tokenizer

    def write(self, prompt: Prompt, pictures: Sequence[Picture]) -> list[int]:
        """The tokens of a prompt. `pictures` stand in the order of its messages' images.

        Raises:
            BadInput: the template can't take the messages.
        """
        text = self._render(prompt)
        first = not (self._tokenizer.bos_token and text.startswith(self._tokenizer.bos_token))
        if not pictures:
            return self._ids(text, first=first and self._family is not None)
        parts = text.split(self._placeholder)
        if len(parts) != len(pictures) + 1:
            raise BadInput(
                f"the chat template wrote {len(parts) - 1} places for {len(pictures)} pictures;"
                " it may not take pictures in this role",
                where="messages",
                param="messages",
            )
        family = cast("Family", self._family)
        joined = parts[0] + "".join(
            placeholders(family, picture, self._placeholder) + part
            for picture, part in zip(pictures, parts[1:], strict=True)
        )
        return self._ids(joined, first=first)

    def _ids(self, text: str, *, first: bool) -> list[int]:
        """Tokens of rendered text; a placeholder that a user wrote is no placeholder."""
        ids: list[int] = []
        for n, part in enumerate(text.split(ESCAPED)):
            if n:
                half = len(self._placeholder) // 2
                for piece in (self._placeholder[:half], self._placeholder[half:]):
                    ids += self._tokenizer.encode(piece, add_special_tokens=False)
            ids += self._tokenizer.encode(part, add_special_tokens=first and n == 0)
        return ids

    def _render(self, prompt: Prompt) -> str:
        told = self.knows_tools and prompt.tool_choice != "none"
        tools = [tool_json(tool) for tool in prompt.tools] if told else []
        messages = [self._message(message) for message in prompt.messages]
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    messages,
                    chat_template=self._template,
                    tools=tools or None,
                    tokenize=False,
                    add_generation_prompt=True,
                )
            )
        except (TemplateError, ValueError, TypeError) as error:
            raise BadInput(
                f"the model's chat template refuses these messages: {str(error)[:200]}",
                where="messages",
                param="messages",
            ) from error

    def _message(self, message: Message) -> Json:
        content: Any = self._plain(message.text)
        if self._family is not None:
            content = [
                {"type": "text", "text": self._plain(piece)}
                if isinstance(piece, str)
                else {"type": "image"}
                for piece in pieces(message)
            ]
        body: Json = {"role": message.role, "content": content}
        if message.calls:
            body["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": arguments_of(call.arguments)},
                }
                for call in message.calls
            ]
        if message.call_id is not None:
            body["tool_call_id"] = message.call_id
        return body

    def _plain(self, text: str) -> str:
        if not self._placeholder:
            return text
        return text.replace(ESCAPED, "").replace(self._placeholder, ESCAPED)


ESCAPED = "\U000f4d0e"
"""Stands for a placeholder that a user wrote until the template has written its own (a private-use
character, which has no meaning in any text)."""


def arguments_of(written: str) -> Any:
    """Arguments of an earlier call as templates want them: an object where it is one."""
    try:
        return json.loads(written or "{}")
    except ValueError:
        return written


def ends_of(folder: Path, tokenizer: Any) -> frozenset[int]:
    """Those of the folder's generation settings, and the tokenizer's own."""
    file = folder / "generation_config.json"
    settings: Json = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    said: Any = settings.get("eos_token_id")
    several = cast("list[int | None]", said) if isinstance(said, list) else [said]
    own = cast("int | None", tokenizer.eos_token_id)
    return frozenset(token for token in (*several, own) if token is not None)


def template_of(folder: Path, tokenizer: Any) -> str:
    """The chat template of a model's folder.

    Raises:
        MissingRequirement: it has none.
    """
    if isinstance(tokenizer.chat_template, str):
        return tokenizer.chat_template
    file = folder / "chat_template.json"
    if file.is_file():
        return str(json.loads(file.read_text(encoding="utf-8"))["chat_template"])
    raise MissingRequirement(
        f"{folder.name} has no chat template; give one as options.chat_template", where="model"
    )

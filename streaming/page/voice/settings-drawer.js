// The drawer in which the reader sets voice, end of turn and instructions.

import { el, icon } from "../dom.js";
import { askJson } from "../http.js";

const EAGERNESS = [
  ["auto", "As it sees fit"],
  ["low", "Waits for you"],
  ["medium", "Balanced"],
  ["high", "Quick to answer"],
];

function field(label, hint, control) {
  const note = hint ? el("small", { id: `${control.name}-hint` }, hint) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return el("label", { class: "field" }, el("span", {}, label), control, note);
}

function options(pairs, chosen) {
  return pairs.map(([value, text]) => el("option", { value, selected: value === chosen }, text));
}

export class SettingsDrawer {
  /**
   * `onChange()` is called after each change, when `settings` holds and has saved it; the voices of
   * `pipeline` are suggested.
   */
  constructor(settings, pipeline, onChange) {
    this.settings = settings;
    this.pipeline = pipeline;
    this.onChange = onChange;
    this.button = el(
      "button",
      { type: "button", class: "quiet", "aria-label": "Settings", on: { click: () => this.open() } },
      icon("settings"),
    );
    this.build(settings.values);
    this.form.addEventListener("change", () => this.changed());
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
  }

  build(values) {
    this.voices = el("datalist", { id: "voices" });
    this.voice = el("input", { name: "voice", value: values.voice, placeholder: "The pipeline's own", autocomplete: "off", spellcheck: false });
    this.voice.setAttribute("list", "voices");
    this.mode = el("select", { name: "mode" }, ...options([["server_vad", "After a silence"], ["semantic_vad", "When it sounds finished"]], values.mode));
    this.silence = el("input", { name: "silenceMs", type: "range", min: 200, max: 1500, step: 50, value: values.silenceMs });
    this.silenceShown = el("output", {});
    this.eagerness = el("select", { name: "eagerness" }, ...options(EAGERNESS, values.eagerness));
    this.instructions = el("textarea", { name: "instructions", rows: 5, maxLength: 8000, value: values.instructions, placeholder: "The pipeline's own" });
    this.silenceField = field("Length of that silence", "", this.silence);
    this.silenceField.append(this.silenceShown);
    this.eagernessField = field("Eagerness", "", this.eagerness);
    this.form = el(
      "form",
      { method: "dialog" },
      el(
        "header",
        {},
        el("h2", { id: "settings-title" }, "Settings"),
        el("button", { class: "quiet", "aria-label": "Close" }, icon("close")),
      ),
      field("Your turn ends", "", this.mode),
      this.silenceField,
      this.eagernessField,
      field("Voice", "A name that the pipeline's speech model knows.", this.voice),
      field("Instructions", "What the model is told before the conversation.", this.instructions),
    );
    this.dialog = el("dialog", { class: "drawer", "aria-labelledby": "settings-title" }, this.form, this.voices);
    this.reflect();
  }

  open() {
    this.dialog.showModal();
    this.suggest();
  }

  /** The field takes any name: a pipeline in other processes doesn't tell the ones it has. */
  async suggest() {
    const { data } = await askJson("/v1/audio/voices").catch(() => ({ data: [] }));
    const own = data.filter(({ motet }) => motet.pipelines.includes(this.pipeline));
    this.voices.replaceChildren(...own.map(({ id }) => el("option", { value: id })));
  }

  changed() {
    Object.assign(this.settings.values, {
      voice: this.voice.value.trim(),
      mode: this.mode.value,
      silenceMs: Number(this.silence.value),
      eagerness: this.eagerness.value,
      instructions: this.instructions.value.trim(),
    });
    this.settings.save();
    this.reflect();
    this.onChange();
  }

  reflect() {
    const semantic = this.mode.value === "semantic_vad";
    this.silenceField.hidden = semantic;
    this.eagernessField.hidden = !semantic;
    this.silenceShown.textContent = `${this.silence.value} ms`;
  }
}

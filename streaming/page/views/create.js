// The create view: words become a picture or a clip, and what making it cheaper won and cost.

import { Form } from "../create/form.js";
import { Maker, release, wishes } from "../create/maker.js";
import { Savings } from "../create/savings.js";
import { Stage } from "../create/stage.js";
import { el } from "../dom.js";

export const id = "create";
export const title = "Create";

const MOST_KEPT = 12;

/** {picture, clip}: the names of the first pipelines that make each. */
function makers(pipelines) {
  const found = {};
  for (const { name, accepts, emits } of pipelines) {
    if (accepts?.includes("Generate")) found[emits.includes("VideoClip") ? "clip" : "picture"] ??= name;
  }
  return found;
}

/** A pipeline that makes pictures or clips from words is there to be asked. */
export function applies(pipelines) {
  return Object.keys(makers(pipelines)).length > 0;
}

class CreateView {
  constructor({ main, pipelines }) {
    const models = makers(pipelines);
    const kinds = ["picture", "clip"].filter((kind) => models[kind]);
    this.maker = new Maker(models);
    this.kept = [];
    this.work = null;
    this.form = new Form(kinds, () => (this.work ? this.stop() : this.make()));
    this.stage = new Stage(kinds, (prompt, kind) => this.take(prompt, kind));
    this.savings = new Savings({
      make: (request) => this.variant(request),
      onKeepSeed: (seed) => (this.form.seed.value = seed),
    });
    this.problem = el("p", { class: "bad", role: "alert" });
    this.gallery = el("ol", { class: "gallery", "aria-label": "Made before", hidden: true });
    this.live = el("p", { class: "unseen", "aria-live": "polite" });
    this.root = el(
      "div",
      { class: "create-view" },
      el("div", { class: "asking" }, this.form.head, this.problem),
      el("div", { class: "showing" }, this.stage.node, this.savings.node, this.gallery),
      this.form.node,
      this.live,
    );
    main.append(this.root);
    this.measuring = new AbortController();
  }

  take(prompt, kind) {
    this.form.prompt.value = prompt;
    const radio = this.form.head.querySelector(`input[value=${kind}]`);
    if (radio) radio.checked = true;
    this.make();
  }

  async make() {
    const { values, chosenKind: kind } = this.form;
    if (values.prompt === "" || !this.form.valid) return;
    this.measuring.abort();
    this.measuring = new AbortController();
    const work = (this.work = new AbortController());
    this.problem.textContent = "";
    this.form.making = true;
    this.savings.node.hidden = true;
    this.stage.begin(values.prompt);
    const request = wishes(values);
    try {
      const made = await this.maker.make(kind, request, (news) => this.stage.told(news), work.signal);
      this.keep({ made, request, prompt: values.prompt });
      this.live.textContent = `${values.prompt}: it is made.`;
    } catch (error) {
      this.failed(error);
    }
    if (this.work === work) {
      this.work = null;
      this.form.making = false;
    }
  }

  stop() {
    this.work.abort();
  }

  failed(error) {
    const last = this.kept[0];
    this.stage.end();
    if (last) this.show(last);
    else if (!this.stage.picture.getAttribute("src")) {
      this.stage.frame.hidden = true;
      this.stage.opening.hidden = false;
    }
    if (error.name !== "AbortError") this.problem.textContent = error.message;
  }

  keep(one) {
    if (!one.request.steps) this.form.interval.setSteps(one.made.meta.steps);
    this.kept.unshift(one);
    for (const old of this.kept.splice(MOST_KEPT)) release(old.made);
    this.show(one);
  }

  show(one) {
    this.stage.show(one.made, one.prompt);
    this.savings.show(one.made, one.request);
    this.gallery.hidden = this.kept.length < 2;
    this.gallery.replaceChildren(
      ...this.kept.map((each) =>
        el(
          "li",
          {},
          el(
            "button",
            { type: "button", "aria-label": each.prompt, "aria-pressed": String(each === one), on: { click: () => this.show(each) } },
            el("img", { src: each.made.still ?? each.made.url, alt: "" }),
          ),
        ),
      ),
    );
  }

  /** The same again under other savings; given up when the reader asks for something else. */
  variant(request) {
    return this.maker.make(this.savings.made.kind, request, () => {}, this.measuring.signal);
  }

  close() {
    this.work?.abort();
    this.measuring.abort();
    for (const { made } of this.kept) release(made);
  }
}

/** Shows the view in `place`; the function that comes back takes it away again. */
export function mount(place) {
  const view = new CreateView(place);
  return () => view.close();
}

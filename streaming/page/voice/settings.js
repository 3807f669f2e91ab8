// How the reader wants to be talked with: kept in this browser, sent as a `session.update`.

const PLACE = "motet.talk";

const DEFAULTS = {
  voice: "",
  mode: "server_vad",
  silenceMs: 500,
  eagerness: "auto",
  instructions: "",
};

export class Settings {
  static load() {
    try {
      return new Settings(JSON.parse(localStorage.getItem(PLACE) ?? "{}"));
    } catch {
      return new Settings({});
    }
  }

  constructor(values) {
    this.values = { ...DEFAULTS, ...values };
  }

  save() {
    localStorage.setItem(PLACE, JSON.stringify(this.values));
  }

  get turnDetection() {
    const { mode, silenceMs, eagerness } = this.values;
    const common = { create_response: true, interrupt_response: true };
    return mode === "semantic_vad"
      ? { type: mode, eagerness, ...common }
      : { type: mode, silence_duration_ms: silenceMs, ...common };
  }

  /** The session object of a `session.update`; what isn't set is left to the server. */
  session({ spoken = true } = {}) {
    const { voice, instructions } = this.values;
    const format = { type: "audio/pcm", rate: 24000 };
    return {
      type: "realtime",
      output_modalities: [spoken ? "audio" : "text"],
      ...(instructions ? { instructions } : {}),
      audio: {
        input: { format, transcription: { model: "default" }, turn_detection: this.turnDetection },
        output: { format, ...(voice ? { voice } : {}) },
      },
    };
  }
}

// Opens the microphone and hands on what it hears, 20 ms at a time, at 24 kHz.

import { Problem } from "./problems.js";

const CONSTRAINTS = {
  audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true },
};

const REFUSALS = {
  NotAllowedError: "microphone-denied",
  SecurityError: "microphone-denied",
  NotFoundError: "microphone-missing",
  OverconstrainedError: "microphone-missing",
  NotReadableError: "microphone-busy",
  AbortError: "microphone-busy",
};

async function stream() {
  if (!window.isSecureContext) throw new Problem("insecure");
  if (!navigator.mediaDevices?.getUserMedia) throw new Problem("microphone-missing");
  try {
    return await navigator.mediaDevices.getUserMedia(CONSTRAINTS);
  } catch (error) {
    throw new Problem(REFUSALS[error.name] ?? "microphone-busy", error.message);
  }
}

/** A source in `context`, or in one at the device's own rate where the browser insists on it. */
function source(context, heard) {
  try {
    return { context, node: context.createMediaStreamSource(heard), owned: false };
  } catch {
    const own = new AudioContext();
    own.resume();
    return { context: own, node: own.createMediaStreamSource(heard), owned: true };
  }
}

export class Microphone {
  /** `onFrame(pcm)` gets an Int16Array of 480 samples; `onEnded()` tells that the device has gone. */
  static async open(context, { onFrame, onEnded }) {
    const heard = await stream();
    const { context: own, node, owned } = source(context, heard);
    await own.audioWorklet.addModule(new URL("capture-worklet.js", import.meta.url));
    const worklet = new AudioWorkletNode(own, "motet-capture", {
      numberOfOutputs: 0,
      channelCount: 1,
      channelCountMode: "explicit",
    });
    worklet.port.onmessage = ({ data }) => onFrame(data);
    node.connect(worklet);
    heard.getAudioTracks()[0].addEventListener("ended", onEnded);
    return new Microphone(heard, node, worklet, owned ? own : null);
  }

  constructor(heard, node, worklet, context) {
    this.heard = heard;
    this.node = node;
    this.worklet = worklet;
    this.context = context;
  }

  close() {
    this.worklet.port.onmessage = null;
    this.node.disconnect();
    for (const track of this.heard.getTracks()) track.stop();
    this.context?.close();
  }
}


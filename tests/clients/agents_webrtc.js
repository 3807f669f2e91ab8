// Runs in a page: @openai/agents-realtime as a browser has it, over WebRTC by default.
async ([base, key]) => {
  const { RealtimeAgent, RealtimeSession, tool } = await import("/bundle/openai-realtime-agents.mjs");
  const seen = { calls: [], errors: [], types: new Set(), starts: 0, interrupted: 0 };
  const weather = tool({
    name: "weather",
    description: "What the weather is like.",
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
    strict: true,
    execute: async ({ city }) => {
      seen.calls.push(city);
      return `sunny in ${city}`;
    },
  });
  const agent = new RealtimeAgent({ name: "Guide", instructions: "Be kind.", tools: [weather] });
  const session = new RealtimeSession(agent);
  session.on("error", (event) => seen.errors.push(JSON.stringify(event.error ?? event)));
  session.on("transport_event", (event) => seen.types.add(event.type));
  session.on("audio_start", () => (seen.starts += 1));
  session.on("audio_interrupted", () => (seen.interrupted += 1));
  await session.connect({ apiKey: key, url: `${base}/v1/realtime/calls` });
  window.session = session;
  window.report = () => ({
    ...seen,
    types: [...seen.types].sort(),
    history: session.history,
    callId: session.transport.callId,
  });
}

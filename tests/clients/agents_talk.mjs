// Runs under Node beside an installed @openai/agents-realtime: an agent with a tool, asked in
// writing and then by voice. Arguments: the server's address, a WAV file.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [address, wav, modules] = process.argv.slice(2);
const require = createRequire(join(modules, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket, tool } = await load(
  "@openai/agents-realtime",
);

const calls = [];
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
    calls.push(city);
    return `sunny in ${city}`;
  },
});
const agent = new RealtimeAgent({ name: "Guide", instructions: "Be kind.", tools: [weather] });
const url = address.replace("http", "ws") + "/v1/realtime?model=gpt-realtime";
const transport = new OpenAIRealtimeWebSocket({ url, useInsecureApiKey: true });
const session = new RealtimeSession(agent, { transport });

let audioBytes = 0;
let ends = 0;
const errors = [];
const types = new Set();
let wake = () => {};
session.on("audio", (event) => (audioBytes += event.data.byteLength));
session.on("error", (event) => errors.push(JSON.stringify(event.error ?? event)));
session.on("transport_event", (event) => types.add(event.type));
transport.on("turn_done", (event) => {
  ends += event.response.output.some((item) => item.type === "message");
  wake();
});
const spoken = async (count) => {
  const timer = setTimeout(() => process.exit(3), 30000);
  while (ends < count) await new Promise((done) => (wake = done));
  clearTimeout(timer);
};
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

await session.connect({ apiKey: "k", url });
session.sendMessage("What is the weather in Oslo?");
await spoken(1);
const pcm = readFileSync(wav).subarray(44);
for (let at = 0; at < pcm.length; at += 960) {
  session.sendAudio(Uint8Array.from(pcm.subarray(at, at + 960)).buffer);
  await sleep(10);
}
await spoken(2);
await sleep(300);
const report = { calls, audioBytes, errors, types: [...types].sort(), history: session.history };
session.close();
process.stdout.write(JSON.stringify(report), () => process.exit(0));

// A page's own code for a call, as OpenAI's documentation has it: no library, a base URL, a key.
async ([base, key]) => {
  window.events = [];
  const pc = new RTCPeerConnection();
  window.pc = pc;
  const audio = document.createElement("audio");
  audio.autoplay = true;
  pc.ontrack = (event) => {
    audio.srcObject = event.streams[0];
    window.remote = event.streams[0];
  };
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: true });
  pc.addTrack(microphone.getTracks()[0]);
  const channel = pc.createDataChannel("oai-events");
  window.channel = channel;
  channel.addEventListener("message", (event) => window.events.push(JSON.parse(event.data)));
  channel.addEventListener("close", () => (window.ended = true));
  const offer = await pc.createOffer();
  await pc.setLocalDescription(offer);
  const answer = await fetch(`${base}/v1/realtime/calls?model=voice`, {
    method: "POST",
    body: offer.sdp,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/sdp" },
  });
  if (answer.status !== 201) throw new Error(await answer.text());
  await pc.setRemoteDescription({ type: "answer", sdp: await answer.text() });
  return answer.headers.get("Location");
}

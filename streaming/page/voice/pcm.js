// Signed 16-bit samples and their two other shapes: floats in the browser, base64 on the wire.

export const RATE_HZ = 24000;

export function int16FromFloat(samples) {
  const pcm = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; i += 1) {
    const sample = Math.max(-1, Math.min(1, samples[i]));
    pcm[i] = Math.round(sample * (sample < 0 ? 32768 : 32767));
  }
  return pcm;
}

/** Little-endian bytes of `pcm` as base64. */
export function base64FromInt16(pcm) {
  const bytes = new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength);
  let text = "";
  for (let i = 0; i < bytes.length; i += 4096) {
    text += String.fromCharCode(...bytes.subarray(i, i + 4096));
  }
  return btoa(text);
}

/** The whole samples in `base64`; an odd last byte is dropped. */
export function int16FromBase64(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length & ~1);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = text.charCodeAt(i);
  return new Int16Array(bytes.buffer);
}

/** Lowest and highest sample of each bucket of `size`, in -1..1, as [low, high] pairs. */
export function peaks(pcm, size) {
  const found = [];
  for (let start = 0; start < pcm.length; start += size) {
    let low = 0;
    let high = 0;
    for (let i = start; i < Math.min(start + size, pcm.length); i += 1) {
      if (pcm[i] < low) low = pcm[i];
      if (pcm[i] > high) high = pcm[i];
    }
    found.push([low / 32768, high / 32768]);
  }
  return found;
}

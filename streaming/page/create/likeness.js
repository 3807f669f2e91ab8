// How much two pictures differ, as peak signal-to-noise ratio over their pixels.

async function pixels(url) {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  return context.getImageData(0, 0, canvas.width, canvas.height).data;
}

/** PSNR in dB of RGBA bytes, the alpha left out; Infinity where they are the same. */
export function psnr(one, other) {
  let squares = 0;
  for (let at = 0; at < one.length; at += 1) {
    if (at % 4 !== 3) squares += (one[at] - other[at]) ** 2;
  }
  const mean = squares / (one.length * 0.75);
  return mean === 0 ? Infinity : 10 * Math.log10(255 ** 2 / mean);
}

/** The PSNR of two pictures by their addresses; of clips, sheets of their frames are compared. */
export async function likeness(one, other) {
  const [first, second] = await Promise.all([pixels(one), pixels(other)]);
  return first.length === second.length ? psnr(first, second) : 0;
}

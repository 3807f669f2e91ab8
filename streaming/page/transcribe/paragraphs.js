// A transcript as paragraphs of one speaker each, and which word is being said.

const LONGEST_WORDS = 90;
const PAUSE_S = 2;

/**
 * [{speaker, startS, words: [{text, startS, endS}]}] of a transcript's segments. Where a segment
 * has no words of its own, it is one long word.
 */
export function paragraphs(segments) {
  const made = [];
  for (const segment of segments) {
    for (const word of wordsOf(segment)) {
      const last = made.at(-1);
      const before = last?.words.at(-1);
      const goesOn =
        last?.speaker === word.speaker &&
        word.startS - before.endS < PAUSE_S &&
        !(last.words.length >= LONGEST_WORDS && /[.?!]["')]*$/.test(before.text));
      if (goesOn) last.words.push(word);
      else made.push({ speaker: word.speaker, startS: word.startS, words: [word] });
    }
  }
  return made;
}

function wordsOf({ text, start, end, speaker, words }) {
  if (!words?.length) return [{ text: text.trim(), startS: start, endS: end, speaker: speaker ?? null }];
  return words.map((word) => ({
    text: word.word.trim(),
    startS: word.start,
    endS: word.end,
    speaker: word.speaker ?? speaker ?? null,
  }));
}

/** The speakers in order of appearance, with the seconds that each speaks. */
export function speakers(parts) {
  const spoken = new Map();
  for (const { speaker, words } of parts) {
    const seconds = words.reduce((sum, { startS, endS }) => sum + endS - startS, 0);
    spoken.set(speaker, (spoken.get(speaker) ?? 0) + seconds);
  }
  return [...spoken].filter(([speaker]) => speaker !== null);
}

/** The index of the last of `starts` (ascending) that isn't after `atS`; -1 before the first. */
export function indexAt(starts, atS) {
  let [low, high] = [0, starts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= atS) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Seconds as 1:02 or 1:00:02. */
export function clock(seconds) {
  const whole = Math.floor(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (number) => String(number).padStart(2, "0");
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

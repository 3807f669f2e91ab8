// Where each node of a pipeline's graph stands: columns by distance from the input, no DOM here.

const HUB = "conversation";
const GAP = 36; // between columns, where edges bend
const LANE = 14; // between edges that pass over columns
const ROW_GAP = 16;

/**
 * The graph as columns, each after all that feed it. The hub of a conversation is drawn twice:
 * where transcripts arrive, and where the reply leaves.
 * @returns {{columns: string[][], edges: [string, string][]}}
 */
export function columns(edges) {
  const below = reached(HUB, edges);
  const drawn = edges.map(([from, to]) => [from, to === HUB && below.has(from) ? "reply" : to]);
  const unique = [...new Map(drawn.map((edge) => [edge.join("\n"), edge])).values()];
  const names = [...new Set(unique.flat())];
  const depth = new Map(names.map((name) => [name, 0]));
  for (let round = 0; round < names.length; round += 1) {
    for (const [from, to] of unique) depth.set(to, Math.max(depth.get(to), depth.get(from) + 1));
  }
  const found = [];
  for (const name of names) (found[depth.get(name)] ??= []).push(name);
  return { columns: found.filter(Boolean), edges: unique };
}

function reached(start, edges) {
  const found = new Set();
  const waiting = [start];
  while (waiting.length > 0) {
    const at = waiting.pop();
    for (const [from, to] of edges) {
      if (from === at && to !== HUB && !found.has(to)) {
        found.add(to);
        waiting.push(to);
      }
    }
  }
  return found;
}

/** Edges that pass over a column get a lane each; those that don't overlap share one. */
function lanes(edges, column) {
  const taken = [];
  return edges.map(([from, to]) => {
    const [start, end] = [column.get(from), column.get(to)];
    if (end - start < 2) return null;
    let lane = 0;
    while (taken[lane]?.some(([a, b]) => start < b && a < end)) lane += 1;
    (taken[lane] ??= []).push([start, end]);
    return lane;
  });
}

/**
 * Boxes and edge paths. `sizeOf(name)` is [along, across] in px: along the flow, and across it.
 * The flow runs to the right, or downwards where `across` (the room there is) is given.
 */
export function place(graph, sizeOf, { down = false, across = 0 } = {}) {
  const column = new Map();
  graph.columns.forEach((names, index) => names.forEach((name) => column.set(name, index)));
  const lane = lanes(graph.edges, column);
  const head = (1 + Math.max(-1, ...lane.map((one) => one ?? -1))) * LANE + (lane.some((one) => one !== null) ? 10 : 0);
  const boxes = new Map();
  let at = 0;
  const height = down ? across - head : Math.max(...graph.columns.map((names) => stack(names, sizeOf)));
  for (const names of graph.columns) {
    const along = Math.max(...names.map((name) => sizeOf(name)[0]));
    const shared = (height - ROW_GAP * (names.length - 1)) / names.length;
    const sizes = names.map((name) => Math.min(sizeOf(name)[1], down ? shared : Infinity));
    let offset = head + (height - sizes.reduce((sum, size) => sum + size, ROW_GAP * (names.length - 1))) / 2;
    names.forEach((name, index) => {
      boxes.set(name, { at: at + (along - sizeOf(name)[0]) / 2, along: sizeOf(name)[0], offset, across: sizes[index] });
      offset += sizes[index] + ROW_GAP;
    });
    at += along + GAP;
  }
  const paths = graph.edges.map(([from, to], index) => ({
    from,
    to,
    path: path(points(boxes.get(from), boxes.get(to), lane[index]), down),
  }));
  return { boxes, paths, along: at - GAP, across: height + head };
}

function stack(names, sizeOf) {
  return names.reduce((sum, name) => sum + sizeOf(name)[1], ROW_GAP * (names.length - 1));
}

/** The corners of an edge as [along, across]. */
function points(from, to, lane) {
  const start = [from.at + from.along, from.offset + from.across / 2];
  const end = [to.at, to.offset + to.across / 2];
  const over = lane === null ? null : LANE * lane + LANE / 2;
  const out = start[0] + GAP * 0.4;
  const back = end[0] - GAP * 0.6;
  if (over !== null) return [start, [out, start[1]], [out, over], [back, over], [back, end[1]], end];
  if (Math.abs(start[1] - end[1]) < 1) return [start, end];
  return [start, [back, start[1]], [back, end[1]], end];
}

/** An SVG path through `corners`, each rounded. */
function path(corners, down) {
  const write = ([along, across]) => (down ? `${across} ${along}` : `${along} ${across}`);
  const last = corners.length - 1;
  let text = `M${write(corners[0])}`;
  for (let index = 1; index < last; index += 1) {
    text += `L${write(near(corners[index], corners[index - 1]))}`;
    text += `Q${write(corners[index])} ${write(near(corners[index], corners[index + 1]))}`;
  }
  return `${text}L${write(corners[last])}`;
}

function near([x, y], [toX, toY]) {
  const length = Math.hypot(toX - x, toY - y);
  const step = Math.min(8, length / 2) / (length || 1);
  return [x + (toX - x) * step, y + (toY - y) * step];
}

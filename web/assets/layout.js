// Where every node is drawn, in units of the world: a node is a strip of cells, a rack a stack of strips, a block a box of
// racks. Blocks flow in lines so that the whole has about the shape of the window.

export const cell = 10, gap = 2, strip = cell + 4;
const perStrip = 8, perStack = 16, rackGap = 12, pad = 10, head = 20, rackHead = 11, blockGap = 14;

const natural = new Intl.Collator("en", { numeric: true });

// strips is how many lines of cells a node takes, and its number of cells.
function cellsOf(node) {
  let n = 0;
  for (const r of node.gpus) n += r.n;
  return n;
}

// named is how many nodes a fleet has at most whose names are written beside them.
const named = 160, nameHigh = 9;

// groups are ways to put nodes together: a box for each of the first, a stack for each of the second.
export const groups = {
  place: ["block, rack", (n) => n.block || n.zone || "fleet", (n) => n.rack || n.clique || n.pool || ""],
  clique: ["NVLink clique", (n) => n.block || n.zone || "fleet", (n) => n.clique || "no clique"],
  pool: ["pool", (n) => n.pool || "no pool", (n) => n.rack || ""],
  zone: ["zone", (n) => n.zone || "no zone", (n) => n.block || n.rack || ""],
  model: ["GPU model", (n) => n.model || "unknown model", (n) => n.block || n.rack || ""],
};

export function layout(nodes, aspect, group = "place") {
  const label = nodes.size <= named ? nameHigh : 0;
  const blocks = new Map();
  for (const [name, node] of nodes) {
    const block = groups[group][1](node), rack = groups[group][2](node);
    if (!blocks.has(block)) blocks.set(block, new Map());
    const racks = blocks.get(block);
    if (!racks.has(rack)) racks.set(rack, []);
    racks.get(rack).push(name);
  }
  const boxes = [...blocks].sort((a, b) => natural.compare(a[0], b[0])).map(([name, racks]) => box(name, racks, nodes, label, aspect));
  const area = boxes.reduce((n, b) => n + (b.w + blockGap) * (b.h + blockGap), 0);
  const width = Math.max(Math.sqrt(area * aspect), ...boxes.map((b) => b.w), 1);
  let x = 0, y = 0, line = 0, right = 0;
  for (const b of boxes) {
    if (x > 0 && x + b.w > width * 1.02) { x = 0; y += line + blockGap; line = 0; }
    b.x = x; b.y = y;
    x += b.w + blockGap;
    right = Math.max(right, x - blockGap);
    line = Math.max(line, b.h);
  }
  const at = new Map();
  for (const b of boxes) for (const n of b.nodes) { n.block = b; at.set(n.name, n); }
  return { boxes, at, w: Math.max(1, right), h: Math.max(1, y + line) };
}

// box places the racks of a block side by side, and breaks the line where that gets much wider than high; on a telephone, sooner.
function box(name, racks, nodes, label, aspect) {
  const stacks = [];
  for (const [rack, names] of [...racks].sort((a, b) => natural.compare(a[0], b[0]))) {
    names.sort(natural.compare);
    const columns = Math.ceil(names.length / perStack), rows = Math.ceil(names.length / columns);
    const placed = [];
    let x = 0, y = rackHead, high = 0, wide = 0;
    names.forEach((n, i) => {
      if (i > 0 && i % rows === 0) { x += wide + gap * 3; y = rackHead; wide = 0; }
      const count = cellsOf(nodes.get(n)), lines = Math.max(1, Math.ceil(count / perStrip)), w = Math.min(perStrip, Math.max(1, count)) * (cell + gap) - gap;
      y += label;
      placed.push({ name: n, rack, x, y, w, label, h: lines * (cell + gap) - gap, count });
      y += lines * (cell + gap) - gap + 4;
      high = Math.max(high, y);
      wide = Math.max(wide, w);
    });
    stacks.push({ rack, placed, w: x + wide, h: high });
  }
  const area = stacks.reduce((n, s) => n + (s.w + rackGap) * (s.h + rackGap), 0), widest = Math.max(...stacks.map((s) => s.w)), width = Math.max(Math.sqrt(area * Math.min(2.2, 1.5 * aspect)), (aspect < 0.9 ? 2 : 4) * (widest + rackGap));
  const out = { name, nodes: [], racks: [], x: 0, y: 0, w: 0, h: 0 };
  const inLine = Math.max(1, Math.floor((width + pad) / (widest + rackGap))), even = Math.ceil(stacks.length / Math.ceil(stacks.length / inLine));
  let x = pad, y = head, line = 0;
  for (const [i, s] of stacks.entries()) {
    if (i > 0 && i % even === 0) { x = pad; y += line + rackGap; line = 0; }
    out.racks.push({ name: s.rack, x, y, w: s.w, h: s.h });
    for (const n of s.placed) out.nodes.push({ ...n, x: x + n.x, y: y + n.y });
    x += s.w + rackGap;
    out.w = Math.max(out.w, x - rackGap + pad);
    line = Math.max(line, s.h);
  }
  out.h = y + line + pad;
  out.w = Math.max(out.w, name.length * 7 + pad * 2);
  return out;
}

// cellAt is the cell at a place on the node, or -1.
export function cellAt(n, x, y) {
  const i = Math.floor((y - n.y) / (cell + gap)) * perStrip + Math.floor((x - n.x) / (cell + gap));
  return x >= n.x && x <= n.x + n.w && y >= n.y && y <= n.y + n.h && i < n.count ? i : -1;
}

// The nodes by model: one row for each node, one box for each GPU. Only what changes is drawn again.

import { SLOTS, assignColours, backgroundOf, fillOf, keyOf } from "./colours.js";
import { element, find, keep, named, setAttribute, setText } from "./dom.js";
import { findsGpu } from "./search.js";
import { eighthsOf, freeOf, isUnhealthy, labelOf, measuredOf, measuredText, memoryOf, numberOf, statesOf, usedOf } from "./words.js";

const PARTS = [["whole", 1], ["halves", 2], ["quarters", 4], ["eighths", 8]];
const grid = find("nodes");
export const rows = new Map(); // by node: its data and elements
const models = new Map(); // by model: its elements, and names of its nodes, sorted
let view = { terms: [], colour: "queue" };
let current; // the GPU in the tab order
let onSelect = () => {};

// Drawing

// What a box shows: a GPU, and the state of its node.
const contentOf = (gpu, row) => JSON.stringify([gpu, row.usable, row.held]);
const modelOf = (row) => row.product || "unknown model";

function startRow(name) {
  const made = element("div", "", { className: "row", role: "row" });
  const title = element("div", name, { className: "name", role: "rowheader", dir: "auto" });
  const gpus = element("div", "", { className: "gpus", role: "presentation" });
  made.append(title, gpus);
  return { row: { node: name, gpus: [] }, element: made, title, gpus, cells: [], painted: [], contents: [] };
}

function startModel(name) {
  const made = element("div", "", { role: "rowgroup" }), title = element("div", "", { className: "model", role: "row" });
  const head = element("span", "", { role: "rowheader" }), list = element("div", "", { className: "rows", role: "presentation" });
  const text = element("button", "", { type: "button", ariaExpanded: "true" });
  text.addEventListener("click", () => {
    list.hidden = !list.hidden;
    text.ariaExpanded = `${!list.hidden}`;
    keepReachable();
  });
  head.append(text);
  title.append(head);
  made.append(title, list);
  const after = [...models.keys()].filter((each) => each > name).sort()[0];
  grid.insertBefore(made, models.get(after)?.element ?? null);
  return { name, element: made, text, list, order: [] };
}

function paint(entry) {
  entry.row.gpus.forEach((gpu, i) => {
    const background = backgroundOf(gpu, view.colour);
    if (entry.painted[i] !== background) entry.cells[i].style.background = entry.painted[i] = background;
  });
}

// What is used of a box: slices, or GiB of a card.
function partOf(gpu) {
  if (gpu.card === undefined) return `${usedOf(gpu)}/${gpu.capacity}`;
  const used = Math.round(usedOf(gpu) / 1024);
  return `${usedOf(gpu) && !used ? "<1" : used}/${Math.round(gpu.capacity / 1024)}`;
}

function drawCell(entry, gpu, i) {
  const cell = entry.cells[i], content = contentOf(gpu, entry.row);
  if (entry.contents[i] === content) return;
  entry.contents[i] = content;
  const bad = isUnhealthy(gpu);
  cell.className = ["gpu", gpu.cordoned && "cordoned", bad && "unhealthy", gpu.over && "over"].filter(Boolean).join(" ");
  setText(cell, bad && !usedOf(gpu) ? "×" : partOf(gpu));
  setAttribute(cell, "data-size", gpu.profile ?? memoryOf(gpu.mib ?? entry.row.mib));
  cell.setAttribute("aria-label", labelOf(entry.row, gpu));
  if (cell === current) onSelect(entry.row, gpu);
}

export function drawRow(row) {
  if (row.gone || !row.gpus?.length) return dropRow(row.node);
  let entry = rows.get(row.node);
  if (entry && modelOf(entry.row) !== modelOf(row)) dropRow(row.node), (entry = undefined);
  if (!entry) rows.set(row.node, (entry = startRow(row.node)));
  entry.row = row;
  if (!entry.element.parentElement) insert(entry);
  entry.element.classList.toggle("off", row.usable === false || row.held === true);
  setAttribute(entry.title, "data-state", row.held ? "held" : row.usable === false ? "off" : "");
  const facts = [row.node, row.product, memoryOf(row.mib), row.held ? "its agent does not serve" : "", row.usable === false ? "takes no pods" : ""];
  entry.title.title = facts.filter(Boolean).join(", ");
  while (entry.cells.length > row.gpus.length) entry.cells.pop().remove(), (entry.painted.length = entry.contents.length = row.gpus.length);
  while (entry.cells.length < row.gpus.length) addCell(entry);
  row.gpus.forEach((gpu, i) => drawCell(entry, gpu, i));
  paint(entry);
  filter(entry);
}

function addCell(entry) {
  const cell = element("div", "", { className: "gpu", role: "gridcell", tabIndex: -1 });
  cell.entry = entry;
  entry.cells.push(cell);
  entry.gpus.append(cell);
}

function insert(entry) {
  const name = modelOf(entry.row);
  if (!models.has(name)) models.set(name, startModel(name));
  const { list, order } = models.get(name);
  let low = 0, high = order.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (order[middle] < entry.row.node) low = middle + 1;
    else high = middle;
  }
  list.insertBefore(entry.element, low < order.length ? rows.get(order[low]).element : null);
  order.splice(low, 0, entry.row.node);
}

function dropRow(name) {
  const entry = rows.get(name);
  if (!entry) return;
  const model = models.get(modelOf(entry.row));
  entry.element.remove();
  rows.delete(name);
  model.order = model.order.filter((each) => each !== name);
  if (!model.order.length) model.element.remove(), models.delete(model.name);
}

// What the reader chose

export function show(chosen) {
  const again = chosen.colour !== view.colour;
  view = chosen;
  if (again) colourKeys();
  for (const entry of rows.values()) {
    if (again) paint(entry);
    filter(entry);
  }
}

function filter(entry) {
  let some = false;
  entry.row.gpus.forEach((gpu, i) => {
    const found = findsGpu(view.terms, gpu, entry.row);
    some ||= found;
    entry.cells[i].classList.toggle("dim", !found);
  });
  entry.element.hidden = !some;
}

// Sums: models, colours, and what needs attention

const isShown = (entry) => !entry.element.hidden;
const isReachable = (entry) => isShown(entry) && !entry.element.parentElement.hidden;

function sumKeys(entries) {
  const sums = new Map();
  for (const { row } of entries) for (const gpu of row.gpus) for (const share of gpu.shares ?? []) {
    const key = keyOf(share, view.colour);
    const sum = sums.get(key) ?? { slices: 0, mib: 0, size: 0, used: 0, limit: 0 };
    if (share.used !== undefined) (sum.used += share.used), (sum.limit += share.limit ?? 0);
    sum.size += eighthsOf(share.slices, gpu);
    sum[gpu.card === undefined ? "slices" : "mib"] += share.slices;
    sums.set(key, sum);
  }
  return [...sums].sort((a, b) => b[1].size - a[1].size || (a[0] < b[0] ? -1 : 1));
}

function colourKeys() {
  return view.colour !== "holder" && assignColours(sumKeys(rows.values()).map(([key]) => key));
}

// How many such parts are free of a GPU. Parts of a card are rounded down to MiB, those of others are slices.
function fitting(free, gpu, parts, perGpu = 8) {
  const size = gpu.card !== undefined ? Math.floor(gpu.capacity / parts) : perGpu / parts;
  return size && Number.isInteger(size) ? Math.floor(free / size) : 0;
}

// How many pods fit if all have one of these sizes.
export function fitsOf(entries) {
  const fits = PARTS.map(() => 0);
  for (const { row } of entries) for (const gpu of row.gpus) {
    if (!gpu.profile) PARTS.forEach(([, parts], i) => (fits[i] += fitting(freeOf(gpu, row), gpu, parts, row.slices)));
  }
  return fits;
}

function summariseModel(model) {
  const shown = model.order.map((name) => rows.get(name)).filter(isShown);
  model.element.hidden = !shown.length;
  const fits = fitsOf(shown);
  let gpus = 0, instances = 0;
  for (const { row } of shown) for (const gpu of row.gpus) {
    if (gpu.profile) instances += freeOf(gpu, row);
    else gpus += 1;
  }
  const size = memoryOf(shown[0]?.row.mib), room = gpus ? PARTS.map(([name], i) => `${numberOf(fits[i])} ${name}`) : [];
  if (instances) room.push(`${numberOf(instances)} instances`);
  const all = shown.flatMap(({ row }) => row.gpus), slices = all.filter((gpu) => gpu.card === undefined), cards = all.filter((gpu) => gpu.card !== undefined);
  const total = (gpus, of) => numberOf(gpus.reduce((sum, gpu) => sum + of(gpu), 0));
  const given = (gpus, unit, of) => gpus.length > 0 && `${total(gpus, (gpu) => of(usedOf(gpu)))} of ${total(gpus, (gpu) => of(gpu.capacity))} ${unit}`;
  const allocated = [given(slices, "slices", (amount) => amount), given(cards, "GiB", (mib) => mib / 1024)].filter(Boolean).join(" and ");
  const measured = measuredText(shown.map(({ row }) => measuredOf(row)));
  const text = [size, `${numberOf(shown.length)} ${shown.length === 1 ? "node" : "nodes"}`, `${allocated} allocated`, measured, room.length ? `fits now: ${room.join(", ")}` : "no room now"];
  const words = text.filter(Boolean).join(" · ");
  if (model.words === words) return;
  model.words = words;
  const name = element("b");
  name.append(named(model.name));
  model.text.replaceChildren(name, words);
}

// Slices, memory that claims hold, and how much of their memory is used, as far as it is measured.
function textOf(sums) {
  const [slices, mib] = ["slices", "mib"].map((name) => sums.reduce((all, sum) => all + sum[name], 0));
  const allocated = [slices && `${numberOf(slices)} ${slices === 1 ? "slice" : "slices"}`, memoryOf(mib)].filter(Boolean).join(" + ") || "0";
  const [used, limit] = ["used", "limit"].map((name) => sums.reduce((all, sum) => all + sum[name], 0));
  return [allocated, limit && `${Math.round((100 * used) / limit)} % used`].filter(Boolean).join(", ");
}

function showLegend(sums, choose) {
  const shown = sums.slice(0, SLOTS), rest = sums.slice(shown.length);
  const items = shown.map(([key, sum]) => ({ key, text: textOf([sum]), fill: fillOf(key, view.colour) }));
  if (shown.length && rest.length) items.push({ more: rest.length, text: textOf(rest.map(([, sum]) => sum)) });
  keep(find("legend"), items, (item) => item.key ?? "\0more", (item) => {
    const made = element("li");
    if (item.more) return made;
    const button = element("button", "", { type: "button", title: `Search for ${view.colour} ${item.key}`, disabled: !item.key || item.key === "other" });
    button.addEventListener("click", () => choose(`${view.colour}:"${item.key}"`));
    made.append(button);
    return made;
  }, (made, item) => {
    if (item.more) return setText(made, `and ${numberOf(item.more)} more: ${item.text}`);
    const box = element("i");
    box.style.background = item.fill;
    made.firstChild.replaceChildren(box, named(item.key || "none"), ` ${item.text}`);
  });
}

// Counts GPUs by what is wrong with them, and nodes that are held or take no pods.
export function countFaults() {
  const faults = { unhealthy: 0, cordoned: 0, over: 0, held: 0, off: 0 };
  let gpus = 0;
  for (const { row } of rows.values()) {
    if (row.held) faults.held += 1;
    if (row.usable === false) faults.off += 1;
    for (const gpu of row.gpus) {
      const states = statesOf(gpu, row);
      if (states.length) gpus += 1;
      for (const state of ["unhealthy", "cordoned", "over"]) if (states.includes(state)) faults[state] += 1;
    }
  }
  return { gpus, ...faults };
}

export function summarise(choose) {
  const entries = [...rows.values()], shown = entries.filter(isShown);
  // New keys can only get colours that nobody has, so that nothing changes its colour.
  if (colourKeys()) entries.forEach(paint);
  grid.hidden = !shown.length;
  find("empty").hidden = shown.length > 0;
  for (const model of models.values()) summariseModel(model);
  showLegend(view.colour === "holder" ? [] : sumKeys(shown), choose);
  keepReachable();
  return `${numberOf(shown.length)} of ${numberOf(entries.length)} nodes`;
}

// Selection, and keys

function become(cell) {
  if (current) current.tabIndex = -1;
  current = cell;
  cell.tabIndex = 0;
}

// Of all boxes one takes the Tab key: where it is hidden or gone, the first that is shown.
function keepReachable() {
  if (current?.isConnected && isReachable(current.entry)) return;
  const first = grid.querySelector(".rows:not([hidden]) > .row:not([hidden]) .gpu");
  if (first) become(first);
}

function select(cell) {
  const { entry } = cell;
  onSelect(entry.row, entry.row.gpus[entry.cells.indexOf(cell)]);
}

function neighbour(cell, key) {
  const { entry } = cell, i = entry.cells.indexOf(cell);
  const across = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: entry.cells.length - 1 }[key];
  if (across !== undefined) return entry.cells[across];
  const step = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (!step) return undefined;
  const shown = [...grid.querySelectorAll(".rows:not([hidden]) > .row:not([hidden])")], next = shown[shown.indexOf(entry.element) + step];
  const cells = next?.querySelectorAll(".gpu");
  return cells?.[Math.min(i, cells.length - 1)];
}

export function startNodes(selected) {
  onSelect = selected;
  grid.addEventListener("pointerover", ({ target }) => target.entry && select(target));
  grid.addEventListener("focusin", ({ target }) => target.entry && (become(target), select(target)));
  grid.addEventListener("click", ({ target }) => target.entry && target.focus());
  grid.addEventListener("keydown", (event) => {
    const next = event.target.entry && neighbour(event.target, event.key);
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
}

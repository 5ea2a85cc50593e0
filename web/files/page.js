// The page's only script: reads the stream, and keeps one element per GPU. All text from users is set as plain text.

const FRAME_MS = 6; // of a frame's 16, to draw changed rows
const SILENCE_MS = 5000; // the server sends a beat every second
const LEGEND_KEYS = 12;
const find = (id) => document.getElementById(id);
const grid = find("nodes");
const rows = new Map(); // by node: its data and elements
let order = []; // names of nodes, sorted
let waiting = new Map(); // changed rows that are not drawn yet
let filters = readFilters();
let token = "";
let stream; // the AbortController of the stream
let lastEvent = 0; // time of the last event
let current; // the GPU in the tab order
let drawing = false;
let whole = false; // whether the initial state is complete

// Text and colours

function element(tag, text = "", properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  if (text !== "") made.textContent = text;
  return made;
}

function setText(id, text) {
  if (find(id).textContent !== text) find(id).textContent = text;
}

function keyOf(share) {
  if (share.kind === "other") return "other";
  if (filters.colour === "namespace") return share.namespace ?? "";
  if (filters.colour === "queue") return share.queue ?? "";
  return `${share.namespace ?? ""}/${share.pod ?? ""}`;
}

function colourOf(key, kind = "holder") {
  const lightness = `var(--${kind === "holder" || kind === "other" ? "held" : "promised"})`;
  if (key === "" || key === "other") return `hsl(0 0% ${lightness})`;
  let hash = 0;
  for (let i = 0; i < key.length; i++) hash = (Math.imul(hash, 31) + key.charCodeAt(i)) | 0;
  // Scatter the hash, so that pods whose names differ only in the last letter differ in colour.
  return `hsl(${(Math.imul(hash, 2654435761) >>> 16) % 360} 60% ${lightness})`;
}

function gradientOf(gpu) {
  const shares = gpu.shares ?? [];
  const whole = Math.max(1, gpu.capacity, shares.reduce((sum, share) => sum + share.slices, 0));
  let at = 0;
  const stops = shares.map((share) => {
    const from = at;
    at += (100 * share.slices) / whole;
    return `${colourOf(keyOf(share), share.kind)} ${from}% calc(${at}% - 1px), var(--back) calc(${at}% - 1px) ${at}%`;
  });
  return stops.length ? `linear-gradient(90deg, ${stops.join(", ")}, var(--free) ${at}%)` : "none";
}

const usedOf = (gpu) => (gpu.shares ?? []).reduce((sum, share) => sum + share.slices, 0);
// As `free` in the ledger: slices for new pods.
const freeOf = (gpu, row) => (gpu.cordoned || row.usable === false ? 0 : Math.max(0, gpu.capacity - usedOf(gpu)));
const countOf = (count, profile) => `${count} ${profile ? "instance" : "slice"}${count === 1 ? "" : "s"}`;
const roomOf = (gpu, row) => `${freeOf(gpu, row)} of ${countOf(gpu.capacity, gpu.profile)} free`;
const nameOf = (gpu) => gpu.profile ?? (gpu.index === undefined ? "all GPUs" : `GPU ${gpu.index}`);
const holderOf = (share) => (share.kind === "other" ? (share.pods ? `${share.pods} more pods` : "other") : `${share.namespace ?? ""}/${share.pod ?? ""}`);

function ageOf(created) {
  const seconds = (Date.now() - Date.parse(created)) / 1000;
  if (!(seconds >= 0)) return "";
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

function useOf(share) {
  if (share.used === undefined) return "";
  const hour = (Date.now() - Date.parse(share.since)) / 60000 >= 60;
  const time = share.busy === undefined ? "" : `, GPU time ${share.busy} % ${hour ? "in the last hour" : `since ${new Date(share.since).toLocaleTimeString()}`}`;
  return `uses ${share.used} of ${share.limit ?? 0} MiB, peak ${share.peak ?? 0}${time}`;
}

function wordsOf(share, gpu) {
  const kinds = { holder: "", promised: "expected", reservation: "reserved", other: "" };
  const words = [countOf(share.slices, gpu.profile), share.mib ? `${share.mib} MiB` : "", share.queue ? `queue ${share.queue}` : ""];
  return [...words, useOf(share), kinds[share.kind] ?? share.kind, share.created ? ageOf(share.created) : ""].filter(Boolean).join(", ");
}

function stateOf(gpu) {
  if (gpu.twice) return "offered to DRA too, so no new pods: turn DRA or the device plugin off there";
  return gpu.cordoned ? "cordoned" : "";
}

function labelOf(row, gpu) {
  const notes = [stateOf(gpu), gpu.over ? `${gpu.over} over` : ""].filter(Boolean);
  const held = (gpu.shares ?? []).map((share) => `${holderOf(share)} ${wordsOf(share, gpu)}`);
  return [`${row.node} ${nameOf(gpu)}`, roomOf(gpu, row), ...notes, ...held].join("; ");
}

// Filters, stored in the URL

function readFilters() {
  const given = new URLSearchParams(location.search);
  const text = (name) => (given.get(name) ?? "").trim();
  const colour = ["holder", "queue", "namespace"].includes(text("colour")) ? text("colour") : "holder";
  const free = /^\d{1,4}$/.test(text("free")) ? Number(text("free")) : 0;
  return { node: text("node"), namespace: text("namespace"), queue: text("queue"), free, colour };
}

function writeFilters(given) {
  const address = new URLSearchParams();
  for (const [name, value] of given) if (String(value).trim() && !(name === "colour" && value === "holder")) address.set(name, value);
  history.replaceState(null, "", address.size ? `?${address}` : location.pathname);
}

function showFilters() {
  for (const [name, value] of Object.entries(filters)) find("filters").elements[name].value = value || "";
  find("filters").elements.colour.value = filters.colour;
}

function matchesNode(name) {
  if (!filters.node) return true;
  if (!/[*?]/.test(filters.node)) return name.includes(filters.node);
  return matches(filters.node, name);
}

// Without a regular expression: the pattern may come from a link, and one with many stars would block the page.
function matches(pattern, text) {
  let at = 0, i = 0, star = -1, from = 0;
  while (i < text.length) {
    if (pattern[at] === "*") (star = at++), (from = i);
    else if (pattern[at] === "?" || pattern[at] === text[i]) at++, i++;
    else if (star >= 0) (at = star + 1), (i = ++from);
    else return false;
  }
  while (pattern[at] === "*") at++;
  return at === pattern.length;
}

function matchesGpu(gpu, row) {
  if (filters.free && freeOf(gpu, row) < filters.free) return false;
  if (!filters.namespace && !filters.queue) return true;
  // The owners of summed-up pods are unknown: show them in case they match.
  const isAsked = (share) => share.pods ||
    (!filters.namespace || share.namespace === filters.namespace) && (!filters.queue || (share.queue ?? "").includes(filters.queue));
  return (gpu.shares ?? []).some((share) => Boolean(isAsked(share)));
}

function applyFilter(entry) {
  const fits = matchesNode(entry.row.node);
  let some = false;
  entry.row.gpus.forEach((gpu, i) => {
    const shown = fits && matchesGpu(gpu, entry.row);
    some ||= shown;
    entry.cells[i].classList.toggle("dim", fits && !shown);
  });
  entry.element.hidden = !some;
}

function filterAll() {
  filters = readFilters();
  for (const entry of rows.values()) {
    paintRow(entry);
    applyFilter(entry);
  }
  summarise();
}

// Rows

function startRow(name) {
  const row = element("div", "", { className: "row", role: "row" });
  const title = element("div", name, { className: "name", role: "rowheader", dir: "auto" });
  const gpus = element("div", "", { className: "gpus", role: "presentation" });
  row.append(title, gpus);
  return { row: { node: name, gpus: [] }, element: row, title, gpus, cells: [], painted: [] };
}

function paintRow(entry) {
  entry.row.gpus.forEach((gpu, i) => {
    const image = gradientOf(gpu);
    if (entry.painted[i] !== image) entry.cells[i].style.backgroundImage = entry.painted[i] = image;
  });
}

// What a cell shows: a GPU, and whether its node takes pods.
const contentOf = (gpu, row) => JSON.stringify([gpu, row.usable]);

function drawCell(entry, gpu, i, known) {
  const cell = entry.cells[i];
  if (known === contentOf(gpu, entry.row)) return;
  cell.className = `gpu${gpu.cordoned ? " cordoned" : ""}${gpu.over ? " over" : ""}`;
  cell.setAttribute("aria-label", labelOf(entry.row, gpu));
  if (cell === current) showDetails(cell);
}

function drawRow(row) {
  if (row.gone || !row.gpus?.length) return dropRow(row.node);
  let entry = rows.get(row.node);
  if (!entry) rows.set(row.node, (entry = startRow(row.node))), insert(entry);
  const before = entry.row.gpus.map((gpu) => contentOf(gpu, entry.row));
  entry.row = row;
  entry.element.classList.toggle("off", row.usable === false);
  const facts = [row.node, row.product, row.mib ? `${row.mib} MiB a GPU` : "", row.usable === false ? "takes no pods" : ""];
  entry.title.title = facts.filter(Boolean).join(", ");
  while (entry.cells.length > row.gpus.length) entry.cells.pop().remove();
  while (entry.cells.length < row.gpus.length) addCell(entry);
  row.gpus.forEach((gpu, i) => drawCell(entry, gpu, i, before[i]));
  paintRow(entry);
  applyFilter(entry);
}

function addCell(entry) {
  const cell = element("div", "", { className: "gpu", role: "gridcell", tabIndex: -1 });
  cell.entry = entry;
  entry.cells.push(cell);
  entry.gpus.append(cell);
}

function insert(entry) {
  let low = 0, high = order.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (order[middle] < entry.row.node) low = middle + 1;
    else high = middle;
  }
  grid.insertBefore(entry.element, low < order.length ? rows.get(order[low]).element : null);
  order.splice(low, 0, entry.row.node);
}

function dropRow(name) {
  const entry = rows.get(name);
  if (!entry) return;
  entry.element.remove();
  rows.delete(name);
  order = order.filter((each) => each !== name);
}

function draw() {
  drawing = false;
  const end = performance.now() + FRAME_MS;
  for (const [name, row] of waiting) {
    waiting.delete(name);
    drawRow(row);
    if (performance.now() > end) break;
  }
  if (waiting.size) return drawSoon();
  summarise();
  if (whole) thaw();
}

function drawSoon() {
  if (!drawing) requestAnimationFrame(draw);
  drawing = true;
}

function summarise() {
  const entries = [...rows.values()];
  const shown = entries.filter((entry) => !entry.element.hidden);
  grid.hidden = !shown.length;
  find("empty").hidden = shown.length > 0;
  setText("shown", `${shown.length} of ${entries.length} nodes`);
  keepReachable();
  const sums = new Map();
  if (filters.colour !== "holder") {
    for (const { row } of shown) for (const gpu of row.gpus) for (const share of gpu.shares ?? []) {
      sums.set(keyOf(share), (sums.get(keyOf(share)) ?? 0) + share.slices);
    }
  }
  const largest = [...sums].sort((a, b) => b[1] - a[1]).slice(0, LEGEND_KEYS);
  replace("legend", largest, ([key, slices]) => {
    const item = element("li"), box = element("i");
    box.style.background = colourOf(key);
    item.append(box, element("bdi", key || "none"), ` ${slices}`);
    return item;
  });
}

// Details, and keys

function become(cell) {
  if (current) current.tabIndex = -1;
  current = cell;
  cell.tabIndex = 0;
}

// Of all boxes one takes the Tab key: where it is hidden or gone, the first that is shown.
function keepReachable() {
  if (current?.isConnected && !current.entry.element.hidden) return;
  const first = order.find((name) => !rows.get(name).element.hidden);
  if (first !== undefined) become(rows.get(first).cells[0]);
}

function showDetails(cell) {
  const { entry } = cell, gpu = entry.row.gpus[entry.cells.indexOf(cell)];
  if (!gpu) return;
  const model = [entry.row.product, entry.row.mib ? `${entry.row.mib} MiB` : ""].filter(Boolean).join(", ");
  const notes = `${roomOf(gpu, entry.row)}${stateOf(gpu) ? `, ${stateOf(gpu)}` : ""}${gpu.over ? `, ${gpu.over} over` : ""}`;
  find("which").replaceChildren(element("bdi", entry.row.node), ` ${nameOf(gpu)}: ${notes}${model ? ` (${model})` : ""}`);
  find("shares").replaceChildren(...(gpu.shares ?? []).map((share) => {
    const item = element("li"), name = element("b");
    name.append(element("bdi", holderOf(share)));
    item.append(name, `: ${wordsOf(share, gpu)}`);
    return item;
  }));
}

function neighbour(cell, key) {
  const { entry } = cell, i = entry.cells.indexOf(cell);
  const across = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: entry.cells.length - 1 }[key];
  if (across !== undefined) return entry.cells[across];
  const step = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (!step) return undefined;
  for (let at = order.indexOf(entry.row.node) + step; order[at] !== undefined; at += step) {
    const next = rows.get(order[at]);
    if (!next.element.hidden) return next.cells[Math.min(i, next.cells.length - 1)];
  }
  return undefined;
}

// Panels

function replace(id, items, make) {
  const signature = JSON.stringify(items);
  if (find(id).signature === signature) return;
  find(id).signature = signature;
  find(id).replaceChildren(...items.flatMap(make));
}

function showPanels(panels) {
  setText("role", panels.role);
  setText("totals", `${panels.free} of ${panels.capacity} slices free on ${panels.gpus} GPUs${panels.over ? `, ${panels.over} over` : ""}`);
  const names = { 1: "whole GPUs", 2: "halves", 4: "quarters", 8: "eighths" };
  replace("blocks", panels.blocks, (block) => [element("dt", names[block.denominator]), element("dd", `${block.pods}`)]);
  const more = panels.waiting_in_all - panels.waiting.length;
  find("waiting-none").hidden = panels.waiting_in_all > 0;
  replace("waiting", more > 0 ? [...panels.waiting, { more }] : panels.waiting, showWaiting);
  find("quotas-panel").hidden = !panels.quotas.length;
  replace("quotas", panels.quotas, showQuota);
  const { containers, in_all } = panels.unlimited ?? { containers: [], in_all: 0 }, others = in_all - containers.length;
  find("unlimited-panel").hidden = !in_all;
  replace("unlimited", others > 0 ? [...containers, { others }] : containers, showUnlimited);
  find("denials-panel").hidden = !panels.denials;
  find("denials-none").hidden = !!panels.denials?.length;
  replace("denials", panels.denials ?? [], showDenial);
}

function showWaiting(pod) {
  const item = element("li"), name = element("b");
  if (pod.more) return element("li", `and ${pod.more} more`);
  name.append(element("bdi", `${pod.namespace}/${pod.name}`));
  item.append(name, `${countOf(pod.slices, pod.profile)}${pod.created ? `, since ${new Date(pod.created).toLocaleTimeString()}` : ""}: `, element("bdi", pod.why));
  return item;
}

function showUnlimited(found) {
  const item = element("li"), name = element("b");
  if (found.others) return element("li", `${found.others} other containers`);
  name.append(element("bdi", `${found.namespace}/${found.pod}`));
  item.append(name, "container ", element("bdi", found.container), " uses GPU ", `${found.gpu} of `, element("bdi", found.node), ` without the limiter of its ${found.mib} MiB`);
  return item;
}

function showDenial(denial) {
  const item = element("li"), name = element("b");
  name.append(`${denial.reason}: ${denial.pods} in `, element("bdi", denial.namespace ?? "other namespaces"));
  item.append(name, element("bdi", denial.message ?? ""));
  return item;
}

function showQuota(quota) {
  const item = element("li"), name = `${quota.scope} ${quota.name}: ${quota.used} of ${quota.limit} ${quota.unit}`;
  const meter = element("meter", "", { max: Math.max(1, quota.limit), value: quota.used });
  meter.setAttribute("aria-label", name);
  item.append(element("bdi", name), meter);
  return item;
}

// The stream

const seen = new Set();
const on = {
  begin: (namespace) => {
    whole = false;
    seen.clear();
    setText("nodes-title", namespace === null ? "Nodes" : "Nodes, with the pods of one namespace");
  },
  rows: (changed) => {
    for (const row of changed) {
      seen.add(row.node);
      waiting.set(row.node, row);
    }
    drawSoon();
  },
  whole: () => {
    for (const name of rows.keys()) if (!seen.has(name)) waiting.set(name, { node: name, gone: true });
    whole = true;
    drawSoon();
  },
  panels: showPanels,
  refused: (why) => askForToken(why),
};

// Called once everything is drawn: what the page calls live is readable.
function thaw() {
  document.body.classList.remove("frozen");
  setText("state", "live");
}

function freeze(why) {
  whole = false;
  if (document.body.classList.contains("frozen")) return;
  document.body.classList.add("frozen");
  const since = lastEvent ? `frozen since ${new Date(lastEvent).toLocaleTimeString()}` : "not connected";
  setText("state", `${since}: ${why}; retrying`);
}

function askForToken(why) {
  token = "";
  freeze(why);
  if (!find("login")) return;
  find("login").hidden = false;
  setText("refused", why);
}

function take(event) {
  // Not with a regular expression: for it U+2028, which names may contain, ends a line too.
  const lines = event.split("\n"), field = (key) => lines.find((line) => line.startsWith(key))?.slice(key.length);
  const name = field("event: "), data = field("data: ");
  lastEvent = Date.now();
  if (name && data) on[name]?.(JSON.parse(data));
}

async function read(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    events.forEach(take);
  }
}

async function follow() {
  stream = new AbortController();
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const query = filters.namespace ? `?${new URLSearchParams({ namespace: filters.namespace })}` : "";
  const response = await fetch(`stream${query}`, { headers, signal: stream.signal, cache: "no-store" });
  if (response.ok) return read(response);
  const why = (await response.text()).trim().slice(0, 300);
  if (response.status === 401 || response.status === 403) askForToken(why);
  else freeze(why);
}

async function keepFollowing() {
  for (;;) {
    try {
      await follow();
      freeze("the stream has ended");
    } catch {
      freeze("the server does not answer");
    }
    do await new Promise((resolve) => setTimeout(resolve, 1000));
    while (find("login")?.hidden === false);
  }
}

// Start

grid.addEventListener("pointerover", ({ target }) => target.entry && showDetails(target));
grid.addEventListener("focusin", ({ target }) => target.entry && (become(target), showDetails(target)));
grid.addEventListener("keydown", (event) => {
  const next = event.target.entry && neighbour(event.target, event.key);
  if (!next) return;
  event.preventDefault();
  next.focus();
});
find("filters").addEventListener("input", () => {
  writeFilters(new FormData(find("filters")));
  filterAll();
});
// If a token is required, the namespace decides what it may see.
find("filters").elements.namespace.addEventListener("change", () => find("login") && stream?.abort());
find("filters").addEventListener("reset", () => setTimeout(() => find("filters").dispatchEvent(new Event("input"))));
find("filters").addEventListener("submit", (event) => event.preventDefault());
find("login")?.addEventListener("submit", (event) => {
  event.preventDefault();
  token = find("token").value.trim();
  find("token").value = "";
  find("login").hidden = true;
});
addEventListener("popstate", () => (showFilters(), filterAll()));
setInterval(() => lastEvent && Date.now() - lastEvent > SILENCE_MS && stream?.abort(), 1000);
showFilters();
keepFollowing();

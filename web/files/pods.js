// Who holds what: one line for each pod on a node, sorted by any column.

import { element, find, keep, named, setAttribute } from "./dom.js";
import { findsShare } from "./search.js";
import { ageOf, badgesOf, countOf, eighthsOf, memoryOf, nameOf, numberOf, secondsSince, useOf } from "./words.js";

const AT_ONCE = 200;
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const part = (pod) => (pod.limit ? pod.used / pod.limit : -1);
const COLUMNS = [
  { id: "pod", title: "Pod", value: (pod) => pod.name },
  { id: "namespace", title: "Namespace", value: (pod) => pod.namespace },
  { id: "queue", title: "Queue", value: (pod) => pod.queue },
  { id: "share", title: "Share", value: (pod) => pod.size, largest: true },
  { id: "use", title: "Use", value: (pod) => (pod.used === undefined ? -1 : part(pod)), largest: true },
  { id: "age", title: "Age", value: (pod) => secondsSince(pod.created) ?? -1, largest: true },
  { id: "node", title: "Node", value: (pod) => pod.node },
];
let most = AT_ONCE;

// Sums up what a pod holds of the GPUs of one node. Reservations of replicas have the same name, and ids.
function collect(rows, terms) {
  const pods = new Map();
  for (const { row } of rows.values()) for (const gpu of row.gpus) for (const share of gpu.shares ?? []) {
    if (share.kind === "other" || !findsShare(terms, share, gpu, row)) continue;
    const key = `${share.namespace}\0${share.id ?? share.pod}\0${share.kind}\0${row.node}`, known = pods.get(key);
    if (known) add(known, share, gpu);
    else pods.set(key, start(share, gpu, row));
  }
  return pods;
}

// Where a pod has which part. What it claims of a card is memory, not slices.
const placeOf = (share, gpu) => `${nameOf(gpu)}: ${gpu.card === undefined ? `${share.slices}/${gpu.capacity}` : `${memoryOf(share.slices)} of ${memoryOf(gpu.capacity)}`}`;
const slicesOf = (share, gpu) => (gpu.card === undefined ? share.slices : 0);

function start(share, gpu, row) {
  const { namespace = "", queue = "", created = "", slices, mib = 0, kind, used, peak = 0, limit = 0, busy, since, idle } = share;
  const gpus = [gpu.profile ? nameOf(gpu) : placeOf(share, gpu)], size = eighthsOf(slices, gpu);
  return { name: share.pod || "a pod in creation", namespace, queue, created, size, slices: slicesOf(share, gpu), mib, kind, used, peak, limit, busy, since, idle, node: row.node, gpus, profile: gpu.profile };
}

function add(pod, share, gpu) {
  pod.size += eighthsOf(share.slices, gpu);
  pod.slices += slicesOf(share, gpu);
  pod.mib += share.mib ?? 0;
  pod.gpus.push(placeOf(share, gpu));
  if (share.used === undefined) return;
  pod.used = (pod.used ?? 0) + share.used;
  pod.peak += share.peak ?? 0;
  pod.limit += share.limit ?? 0;
  pod.busy = undefined; // of several GPUs, each has its own
}

// `sort` is a column, with "-" before it for the other direction.
function sorted(pods, sort) {
  const id = sort.replace(/^-/, ""), column = COLUMNS.find((each) => each.id === id) ?? COLUMNS[3];
  const sign = Boolean(column.largest) === sort.startsWith("-") ? 1 : -1;
  return [...pods].sort(([, a], [, b]) => sign * compare(column.value(a), column.value(b)) || compare(a.name, b.name) || compare(a.node, b.node));
}

function fill(line, { pod }) {
  const cells = [...line.children], slices = pod.slices && countOf(pod.slices, pod.profile);
  const badges = badgesOf(pod).map((text) => element("span", text, { className: "badge" }));
  cells[0].replaceChildren(named(pod.name), ...badges);
  cells[1].replaceChildren(named(pod.namespace));
  cells[2].replaceChildren(...(pod.queue ? [named(pod.queue)] : []));
  const parts = [slices, memoryOf(pod.mib)].filter(Boolean).map((text) => element("span", text));
  cells[3].replaceChildren(...parts.flatMap((part, i) => (i ? [" · ", part] : [part])));
  cells[4].replaceChildren(...showUse(pod));
  cells[5].textContent = pod.created ? ageOf(pod.created) : "";
  cells[6].replaceChildren(named(pod.node), ` ${pod.gpus.slice(0, 8).join(", ")}`);
}

function showUse(pod) {
  if (pod.used === undefined) return [];
  const meter = element("meter", "", { max: Math.max(1, pod.limit), value: pod.used });
  meter.setAttribute("aria-label", `memory of ${pod.name}`);
  return [meter, useOf(pod)];
}

function startLine() {
  const line = element("tr");
  line.setAttribute("role", "row");
  for (const { id, title } of COLUMNS) {
    const cell = element("td", "", { className: id === "age" ? "number" : "" });
    cell.setAttribute("role", "cell");
    if (!["pod", "age"].includes(id)) cell.dataset.name = title.toLowerCase();
    line.append(cell);
  }
  return line;
}

// Shows the first of all pods that match; returns how many match.
export function showPods(rows, { terms, sort }) {
  const found = sorted(collect(rows, terms), sort), now = Math.floor(Date.now() / 10_000);
  keep(find("holders"), found.slice(0, most).map(([key, pod]) => ({ key, pod, now })), ({ key }) => key, startLine, fill);
  find("pods-none").hidden = found.length > 0;
  find("more").hidden = found.length <= most;
  for (const [i, { id, largest }] of COLUMNS.entries()) {
    const down = Boolean(largest) === !sort.startsWith("-"), isSorted = (sort.replace(/^-/, "") || "share") === id;
    setAttribute(find("headings").children[i], "aria-sort", isSorted ? (down ? "descending" : "ascending") : "");
    find("headings").children[i].firstChild.textContent = `${COLUMNS[i].title}${isSorted ? (down ? " ↓" : " ↑") : ""}`;
  }
  return `${numberOf(found.length)} ${found.length === 1 ? "pod" : "pods"}`;
}

export function startPods(sortBy, again) {
  for (const { id, title } of COLUMNS) {
    const cell = element("th", "", { scope: "col" }), button = element("button", title, { type: "button" });
    cell.setAttribute("role", "columnheader");
    button.addEventListener("click", () => sortBy(id));
    cell.append(button);
    find("headings").append(cell);
  }
  find("more").addEventListener("click", () => ((most += AT_ONCE), again()));
}

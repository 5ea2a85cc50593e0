// The page: what the reader chose, and the stream. Each other module draws one part.

import { forgetColours } from "./colours.js";
import { showDetails, startDetails } from "./details.js";
import { element, find, setText } from "./dom.js";
import { countFaults, drawRow, fitsOf, rows, show, startNodes, summarise } from "./nodes.js";
import { showFaults, showFigures, showLists, showWaiting } from "./panels.js";
import { showPods, startPods } from "./pods.js";
import { parse, readAddress, writeAddress } from "./search.js";
import { follow } from "./stream.js";
import { measuredOf } from "./words.js";

const FRAME_MS = 6; // of a frame's 16, to draw changed rows
const SUMS_MS = 500; // between two sums over all nodes
const ROOM = /(^|\s)free:1(?=\s|$)/; // the search of "only with room"
const form = find("filters");
const changed = new Map(); // rows that are not drawn yet
const seen = new Set(); // nodes of the stream so far
let chosen = readAddress();
let panels;
let drawing = false, summing = false;
let whole = false; // whether the initial state has come
let live = false; // whether it is drawn

// Drawing, a little in each frame

function draw() {
  drawing = false;
  const end = performance.now() + FRAME_MS;
  for (const [name, row] of changed) {
    changed.delete(name);
    drawRow(row);
    if (performance.now() > end) break;
  }
  if (changed.size) return drawSoon();
  if (!whole || live) return sumSoon();
  sumUp();
  thaw();
}

function drawSoon() {
  if (!drawing) requestAnimationFrame(draw);
  drawing = true;
}

function sumSoon() {
  if (!summing) setTimeout(sumUp, SUMS_MS);
  summing = true;
}

function sumUp() {
  summing = false;
  const terms = parse(chosen.q), nodes = summarise(searchFor);
  setText("shown", chosen.view === "pods" ? showPods(rows, { terms, sort: chosen.sort }) : nodes);
  showFaults(countFaults(), panels?.unlimited.in_all ?? 0);
  if (!panels) return;
  const all = [...rows.values()];
  showFigures(panels, fitsOf(all), all.map(({ row }) => measuredOf(row)));
  showWaiting(panels, terms);
}

// What the reader chose, which the address keeps

function choose(change) {
  if (change.colour && change.colour !== chosen.colour) forgetColours();
  chosen = { ...chosen, ...change };
  writeAddress(chosen);
  showChosen();
}

function showChosen() {
  show({ terms: parse(chosen.q), colour: chosen.colour });
  const isPods = chosen.view === "pods";
  find("gpus").hidden = isPods;
  find("pods").hidden = !isPods;
  for (const button of form.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", button.dataset.view === chosen.view);
  sumUp();
}

function fillForm() {
  form.elements.q.value = chosen.q;
  form.elements.colour.value = chosen.colour;
  form.elements.room.checked = ROOM.test(chosen.q);
}

function searchFor(text) {
  choose({ q: chosen.q === text ? "" : text });
  fillForm();
}

function sortBy(id) {
  choose({ sort: (chosen.sort || "share") === id ? `-${id}` : id });
}

function goTo(place) {
  if (place === "pods") return choose({ view: "pods" });
  if (place === "whole") return choose({ view: "gpus" }), searchFor("state:whole");
  if (place === "out") return choose({ view: "gpus" }), searchFor("state:out");
  const panel = find(place);
  panel.open = true;
  panel.scrollIntoView({ block: "nearest" });
  return panel.querySelector("summary").focus();
}

// The stream

const on = {
  begin: () => {
    whole = live = false;
    seen.clear();
  },
  about: ({ cluster, links }) => {
    setText("cluster", cluster);
    document.title = cluster ? `${cluster}: GPU fractions` : "GPU fractions";
    find("links").hidden = !links.length;
    find("links").replaceChildren(...links.map(({ text, address }) => element("a", text, { href: address, rel: "noreferrer" })));
  },
  rows: (found) => {
    for (const row of found) {
      seen.add(row.node);
      changed.set(row.node, row);
    }
    drawSoon();
  },
  whole: () => {
    for (const name of rows.keys()) if (!seen.has(name)) changed.set(name, { node: name, gone: true });
    whole = true;
    drawSoon();
  },
  panels: (found) => {
    panels = found;
    showLists(panels);
    sumSoon();
  },
  frozen: (why, since) => {
    whole = live = false;
    if (document.body.classList.contains("frozen")) return;
    document.body.classList.add("frozen");
    setText("state", `${since ? `frozen since ${new Date(since).toLocaleTimeString()}` : "not connected"}: ${why}; retrying`);
  },
};

// Called once everything is drawn: what the page calls live is readable.
function thaw() {
  live = true;
  document.body.classList.remove("frozen");
  setText("state", "live");
}

// Start

// On a small screen the nodes should not be far below: only who waits is unfolded.
if (matchMedia("(max-width: 62rem)").matches) for (const panel of document.querySelectorAll(".panels > details:not(#waiting-panel)")) panel.open = false;
startNodes(showDetails);
startDetails();
startPods(sortBy, sumUp);
form.addEventListener("input", ({ target }) => {
  const { q, colour, room } = form.elements;
  if (target === room) q.value = room.checked ? `${q.value} free:1`.trim() : q.value.replace(ROOM, " ").trim();
  choose({ q: q.value, colour: colour.value });
  room.checked = ROOM.test(q.value);
});
form.addEventListener("click", ({ target }) => target.dataset.view && choose({ view: target.dataset.view }));
form.addEventListener("reset", () => setTimeout(() => choose({ q: "", colour: "queue" })));
form.addEventListener("submit", (event) => event.preventDefault());
find("figures").addEventListener("click", ({ target }) => {
  const button = target.closest("[data-goes]");
  if (button) goTo(button.dataset.goes);
});
addEventListener("popstate", () => ((chosen = readAddress()), fillForm(), showChosen()));
fillForm();
showChosen();
follow(on);

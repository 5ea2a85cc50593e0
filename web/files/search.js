// The search: words, and words with a key such as queue:half. All must match.

import { eighthsOf, freeOf, statesOf } from "./words.js";

const MAX_TEXT = 500;
const MAX_TERMS = 8;
const KEYS = new Set(["node", "model", "namespace", "pod", "queue", "free", "state"]);

// Reads a search into terms: a key (empty for any), a text in small letters, and whether it must match exactly.
export function parse(text) {
  const words = text.slice(0, MAX_TEXT).match(/[^\s"]*"[^"]*"?|[^\s"]+/g) ?? [];
  return words.slice(0, MAX_TERMS).map(termOf).filter((term) => term.text);
}

function termOf(word) {
  const colon = word.indexOf(":"), name = word.slice(0, colon).toLowerCase();
  const key = colon > 0 && KEYS.has(name) ? name : "", value = key ? word.slice(colon + 1) : word;
  return { key, text: value.replaceAll('"', "").toLowerCase(), exact: value.startsWith('"') };
}

// Without a regular expression: the pattern may come from a link, and one with many stars would block the page.
function matchesPattern(pattern, text) {
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

function matchesText(term, text = "") {
  const found = text.toLowerCase();
  if (term.exact) return found === term.text;
  return /[*?]/.test(term.text) ? matchesPattern(term.text, found) : found.includes(term.text);
}

const OF_SHARES = ["namespace", "pod", "queue"];
const concerns = (term, key) => term.key === key || term.key === "";
const matchesNode = (term, row) =>
  (concerns(term, "node") && matchesText(term, row.node)) || (concerns(term, "model") && matchesText(term, row.product));
const matchesShare = (term, share) => OF_SHARES.some((key) => concerns(term, key) && matchesText(term, share[key]));

function matchesState(term, gpu, row) {
  if (term.key === "free") return eighthsOf(freeOf(gpu, row), gpu) >= (Number(term.text) || 0);
  if (term.text === "whole") return gpu.capacity > 0 && freeOf(gpu, row) === gpu.capacity;
  const states = statesOf(gpu, row);
  return term.text === "out" ? states.length > 0 : states.includes(term.text);
}

// A share matches with its GPU and node. The owners of summed-up pods are unknown: they match in case.
export function findsShare(terms, share, gpu, row) {
  return terms.every((term) => {
    if (term.key === "free" || term.key === "state") return matchesState(term, gpu, row);
    return matchesNode(term, row) || Boolean(share.pods) || matchesShare(term, share);
  });
}

const NOBODY = {};
export function findsGpu(terms, gpu, row) {
  if (!terms.length || findsShare(terms, NOBODY, gpu, row)) return true;
  return (gpu.shares ?? []).some((share) => findsShare(terms, share, gpu, row));
}

// Waiting pods have no node: terms about nodes and GPUs do not narrow them.
export function findsWaiting(terms, pod) {
  const about = { namespace: pod.namespace, pod: pod.name, queue: pod.queue };
  return terms.every((term) => (term.key && !OF_SHARES.includes(term.key)) || matchesShare(term, about) || (!term.key && matchesText(term, pod.cause)));
}

// The state of the page that its address keeps.
export function readAddress() {
  const given = new URLSearchParams(location.search), text = (name) => (given.get(name) ?? "").trim();
  const oneOf = (name, ...allowed) => (allowed.includes(text(name)) ? text(name) : allowed[0]);
  // Addresses of older versions have one parameter for each key.
  const older = ["node", "namespace", "queue", "free"].filter(text).map((name) => `${name}:${text(name)}`);
  const q = [text("q"), ...older].filter(Boolean).join(" ").slice(0, MAX_TEXT);
  return { q, colour: oneOf("colour", "queue", "namespace", "holder"), view: oneOf("view", "gpus", "pods"), sort: text("sort") };
}

export function writeAddress({ q, colour, view, sort }) {
  const address = new URLSearchParams();
  if (q.trim()) address.set("q", q.trim());
  if (colour !== "queue") address.set("colour", colour);
  if (view !== "gpus") address.set("view", view);
  if (sort) address.set("sort", sort);
  history.replaceState(null, "", address.size ? `?${address}` : location.pathname);
}

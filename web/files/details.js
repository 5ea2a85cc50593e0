// One GPU in words: its state, and who holds how much of it.

import { element, find, keep, named } from "./dom.js";
import { holderOf, memoryOf, nameOf, notesOf, numberOf, roomOf, wordsOf } from "./words.js";

const MAX_SHARES = 32;

export function showDetails(row, gpu) {
  if (!gpu) return;
  const model = [row.product, memoryOf(gpu.mib ?? row.mib)].filter(Boolean).join(", ");
  const notes = [roomOf(gpu, row), ...notesOf(gpu, row)].join(", ");
  find("which").replaceChildren(named(row.node), ` ${nameOf(gpu)}: ${notes}${model ? ` (${model})` : ""}`);
  const shares = gpu.shares ?? [], more = shares.length - MAX_SHARES;
  const items = shares.slice(0, MAX_SHARES).map((share) => ({ name: holderOf(share), words: wordsOf(share, gpu) }));
  if (more > 0) items.push({ name: `and ${numberOf(more)} more`, words: "" });
  keep(find("shares"), items, (_item) => items.indexOf(_item), () => element("li"), (made, { name, words }) => {
    const title = element("b");
    title.append(named(name));
    made.replaceChildren(title, words);
  });
}

// On a small screen the details lie over the boxes once one is chosen.
export function startDetails() {
  find("nodes").addEventListener("focusin", () => document.body.classList.add("chosen"));
  const close = () => document.body.classList.remove("chosen");
  find("close").addEventListener("click", close);
  addEventListener("keydown", (event) => event.key === "Escape" && close());
}

// Colours of queues, namespaces or pods: six that colour-blind readers can tell apart, plain and striped.

const COLOURS = 6;
export const SLOTS = 2 * COLOURS;
const BAR = "13px";
const slots = new Map(); // by key: its colour, for as long as the page is open

export function keyOf(share, by) {
  if (share.kind === "other") return "other";
  if (by === "namespace") return share.namespace ?? "";
  if (by === "queue") return share.queue ?? "";
  return `${share.namespace ?? ""}/${share.pod ?? ""}`;
}

export const forgetColours = () => slots.clear();

// Gives colours to keys, the largest first. A key keeps its colour; those for which none is left are grey.
export function assignColours(keys) {
  const before = slots.size;
  for (const key of keys) {
    if (slots.size === SLOTS) break;
    if (key !== "" && key !== "other" && !slots.has(key)) slots.set(key, slots.size);
  }
  return slots.size > before;
}

function slotOf(key, by) {
  if (key === "" || key === "other") return -1;
  if (by !== "holder") return slots.get(key) ?? -1;
  let hash = 0;
  for (let i = 0; i < key.length; i++) hash = (Math.imul(hash, 31) + key.charCodeAt(i)) | 0;
  // Scatter the hash, so that pods whose names differ only in the last letter differ in colour.
  return (Math.imul(hash, 2654435761) >>> 16) % SLOTS;
}

export function fillOf(key, by) {
  const slot = slotOf(key, by), colour = slot < 0 ? "var(--rest-of-keys)" : `var(--c${slot % COLOURS})`;
  if (slot < COLOURS) return `linear-gradient(${colour}, ${colour})`;
  return `repeating-linear-gradient(135deg, ${colour} 0 3px, var(--back) 3px 5px)`;
}

// The background of a GPU's box: a bar of its shares. Pods that are only expected have half the height.
export function backgroundOf(gpu, by) {
  const shares = gpu.shares ?? [];
  const whole = Math.max(1, gpu.capacity, shares.reduce((sum, share) => sum + share.slices, 0));
  let from = 0;
  const layers = shares.map((share) => {
    const size = (100 * share.slices) / whole;
    // A position in per cent is one of the space that the layer leaves.
    const at = size < 100 ? (100 * from) / (100 - size) : 0;
    from += size;
    const height = share.kind === "promised" || share.kind === "reservation" ? "6px" : BAR;
    return `${fillOf(keyOf(share, by), by)} ${at}% 0 / calc(${size}% - 1px) ${height} no-repeat`;
  });
  return [...layers, `var(--rest) 0 0 / 100% ${BAR} no-repeat`].join(", ");
}

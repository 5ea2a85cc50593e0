// How the page says things: names, amounts, ages and states of GPUs and shares.

export const usedOf = (gpu) => (gpu.shares ?? []).reduce((sum, share) => sum + share.slices, 0);
export const isUnhealthy = (gpu) => gpu.unhealthy === true || (gpu.capacity === 0 && gpu.index !== undefined);
// As `free` in the ledger: slices for new pods.
// Of a card, the MiB for new claims.
export const freeOf = (gpu, row) => (gpu.card !== undefined ? gpu.free ?? 0 : gpu.cordoned || row.usable === false ? 0 : Math.max(0, gpu.capacity - usedOf(gpu)));
export const numberOf = (number) => number.toLocaleString("en", { maximumFractionDigits: 1 });
export const countOf = (count, profile) => `${numberOf(count)} ${profile ? "instance" : "slice"}${count === 1 ? "" : "s"}`;
// What claims hold is MiB: in slices of an eighth it compares with shares of other GPUs.
export const eighthsOf = (amount, gpu) => (gpu.card === undefined ? amount : (8 * amount) / Math.max(1, gpu.capacity));
export const amountOf = (amount, gpu) => (gpu.card === undefined ? countOf(amount, gpu.profile) : memoryOf(amount) || "0 MiB");
export const roomOf = (gpu, row) => `${gpu.card === undefined ? numberOf(freeOf(gpu, row)) : amountOf(freeOf(gpu, row), gpu)} of ${amountOf(gpu.capacity, gpu)} free`;
export const nameOf = (gpu) => gpu.card ?? gpu.profile ?? (gpu.index === undefined ? "all GPUs" : `GPU ${gpu.index}`);

export function memoryOf(mib) {
  if (!mib) return "";
  return mib < 1024 ? `${numberOf(mib)} MiB` : `${numberOf(mib / 1024)} GiB`;
}

// The name of a reservation's pod is not always known: the API server may be creating it.
export function holderOf(share) {
  if (share.kind === "other") return share.pods ? `${numberOf(share.pods)} more pods` : "other";
  return `${share.namespace ?? ""}/${share.pod || "a pod in creation"}`;
}

export function secondsSince(time) {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  return seconds >= 0 ? seconds : undefined;
}

export function ageOf(created) {
  const seconds = secondsSince(created);
  if (seconds === undefined) return "";
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

function busyOf(share) {
  if (share.busy === undefined) return "";
  const hour = secondsSince(share.since) >= 3600;
  return `GPU time ${share.busy} % ${hour ? "in the last hour" : `since ${new Date(share.since).toLocaleTimeString()}`}`;
}

// Of a node's shares, the MiB that are used and that may be used, as far as agents measure them.
export function measuredOf(row) {
  const shares = row.gpus.flatMap((gpu) => gpu.shares ?? []).filter((share) => share.used !== undefined);
  const sum = (name) => shares.reduce((all, share) => all + (share[name] ?? 0), 0);
  return { used: sum("used"), limit: sum("limit") };
}

export function measuredText(measured) {
  const used = measured.reduce((all, each) => all + each.used, 0), limit = measured.reduce((all, each) => all + each.limit, 0);
  return limit ? `used ${memoryOf(used) || "0 MiB"} of ${memoryOf(limit)} measured` : "";
}

export function useOf(share) {
  if (share.used === undefined) return "";
  const memory = `uses ${memoryOf(share.used) || "0 MiB"} of ${memoryOf(share.limit) || "0 MiB"}, peak ${memoryOf(share.peak) || "0 MiB"}`;
  return [memory, busyOf(share)].filter(Boolean).join(", ");
}

// What a reader should know of a share at once. More of such marks belong here.
export function badgesOf(share) {
  const kinds = { promised: "expected", reservation: "reserved" };
  return [kinds[share.kind], share.idle && "idle"].filter(Boolean);
}

export function wordsOf(share, gpu) {
  const words = [gpu.card === undefined ? countOf(share.slices, gpu.profile) : "", memoryOf(share.mib), share.queue ? `queue ${share.queue}` : "", useOf(share)];
  return [...words, ...badgesOf(share), share.created ? ageOf(share.created) : ""].filter(Boolean).join(", ");
}

// States of a GPU and of its node, as `state:` in the search names them.
export function statesOf(gpu, row) {
  const states = [isUnhealthy(gpu) && "unhealthy", gpu.cordoned && "cordoned", row.held && "held", row.usable === false && "off"];
  return [...states, gpu.over > 0 && "over"].filter(Boolean);
}

export function notesOf(gpu, row) {
  const meanings = {
    unhealthy: gpu.taint ? `unhealthy: taint ${gpu.taint}` : gpu.unhealthy ? "unhealthy" : "offers no slices: unhealthy, or its device plugin is away",
    cordoned: "cordoned",
    held: "node is held: its agent does not serve",
    off: "node takes no pods: cordoned or not ready",
    over: `over-allocated by ${amountOf(gpu.over ?? 0, gpu)}`,
  };
  return statesOf(gpu, row).map((state) => meanings[state]);
}

export function labelOf(row, gpu) {
  const held = (gpu.shares ?? []).map((share) => `${holderOf(share)} ${wordsOf(share, gpu)}`);
  return [`${row.node} ${nameOf(gpu)}`, roomOf(gpu, row), ...notesOf(gpu, row), ...held].join("; ");
}

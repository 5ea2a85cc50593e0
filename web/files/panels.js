// The figures, what fits, and the lists: who waits and why, quotas, containers without their limit, denials.

import { element, find, keep, named, setText } from "./dom.js";
import { findsWaiting } from "./search.js";
import { ageOf, countOf, measuredText, memoryOf, numberOf } from "./words.js";

const NAMES = ["whole GPUs", "halves", "quarters", "eighths"];
const AT_ONCE = 5; // pods of one cause, until the reader asks for all

const memory = (mib) => memoryOf(mib) || "0 MiB";

function setFigure(id, value, more) {
  setText(id, value);
  setText(`${id}-more`, more);
}

export function showFigures(panels, fits, measured) {
  setText("role", panels.role);
  const { used, capacity, free, gpus, over, cards } = panels;
  // Slices, and memory of cards that claims take parts of: a cluster may have both, and neither counts as the other.
  const hasSlices = capacity > 0 || !cards, parts = hasSlices ? [[used, capacity]] : [];
  if (cards) parts.push([cards.claimed, cards.mib]);
  const percent = parts.map(([some, all]) => (all ? `${Math.round((100 * some) / all)} %` : "–")).join(" · ");
  const slices = hasSlices ? [`${numberOf(used)} of ${numberOf(capacity)} slices${over ? `, ${numberOf(over)} over` : ""}`] : [];
  setFigure("used", percent, [...slices, cards && `${memory(cards.claimed)} of ${memory(cards.mib)} claimed`, measuredText(measured)].filter(Boolean).join("; "));
  const room = [hasSlices && `${numberOf(free)} slices`, cards && memory(cards.free)].filter(Boolean).join(" and ");
  setFigure("whole", numberOf(fits[0]), `of ${numberOf(gpus + (cards?.cards ?? 0))}; ${room} free`);
  setFigure("waits", numberOf(panels.waiting_in_all), panels.waiting_in_all ? "by cause below" : "no pod waits");
  const denied = panels.denials?.reduce((sum, denial) => sum + denial.pods, 0);
  setFigure("denied", denied === undefined ? "–" : numberOf(denied), denied === undefined ? "not known here" : "in the last hour");
  keep(find("blocks"), fits.map((pods, i) => [NAMES[i], pods]), ([name]) => name, () => element("div"), (made, [name, pods]) => {
    made.replaceChildren(element("dt", name), element("dd", numberOf(pods)));
  });
}

export function showFaults({ gpus, unhealthy, cordoned, held, off, over }, unlimited) {
  const words = (count, state) => count && `${numberOf(count)} ${state}`;
  const nodes = (count, state) => words(count, `${count === 1 ? "node" : "nodes"} ${state}`);
  const gpuStates = [words(unhealthy, "unhealthy"), words(cordoned, "cordoned"), words(over, "over-allocated")];
  const all = [...gpuStates, nodes(held, "held"), nodes(off, "off"), words(unlimited, "without limit")].filter(Boolean);
  setFigure("out", numberOf(gpus + unlimited), all.join(", ") || "all GPUs serve");
  find("out").closest("li").classList.toggle("bad", Boolean(gpus || unlimited));
}

// Waiting pods by cause, one line for each

export function showWaiting(panels, terms) {
  const found = panels.waiting.filter((pod) => findsWaiting(terms, pod)), causes = new Map();
  for (const pod of found) causes.set(pod.cause, [...(causes.get(pod.cause) ?? []), pod]);
  const now = Math.floor(Date.now() / 10_000); // ages are drawn again so often
  const groups = [...causes].sort((a, b) => b[1].length - a[1].length).map(([cause, pods]) => ({ cause, pods, now }));
  const [some, all] = [found.length, panels.waiting_in_all].map(numberOf);
  setText("waiting-count", panels.waiting_in_all ? (some === all ? all : `${some} of ${all}`) : "");
  find("waiting-none").hidden = panels.waiting_in_all > 0;
  const more = panels.waiting_in_all - panels.waiting.length;
  setText("waiting-more", more > 0 ? `The first ${numberOf(panels.waiting.length)} are listed and searched; ${numberOf(more)} more wait.` : "");
  keep(find("waiting"), groups, ({ cause }) => cause, startCause, fillCause);
}

function startCause({ cause }) {
  const made = element("li"), title = element("b"), all = element("button", "", { type: "button" });
  title.append(named(cause), element("span"));
  all.addEventListener("click", () => ((made.all = true), fillCause(made, made.group)));
  made.append(title, element("ul"), all);
  return made;
}

function fillCause(made, group) {
  made.group = group;
  const [title, list, all] = made.children, shown = made.all ? group.pods : group.pods.slice(0, AT_ONCE);
  setText(title.lastChild, group.pods.length > 1 ? ` (${numberOf(group.pods.length)})` : "");
  keep(list, shown.map((pod) => ({ ...pod, now: group.now })), (pod) => `${pod.namespace}\0${pod.id ?? pod.name}\0${pod.kind}`, startWaiting, fillWaiting);
  all.hidden = shown.length === group.pods.length;
  setText(all, `Show all ${numberOf(group.pods.length)}`);
}

function startWaiting() {
  const made = element("li"), unfold = element("details");
  unfold.append(element("summary"), element("p"));
  made.append(unfold, element("span"));
  return made;
}

function fillWaiting(made, pod) {
  const [unfold, plain] = made.children, line = pod.why ? unfold.firstChild : plain;
  unfold.hidden = !pod.why;
  plain.hidden = Boolean(pod.why);
  const age = pod.created ? `for ${ageOf(pod.created)}` : "", words = [pod.slices ? countOf(pod.slices, pod.profile) : "", age, pod.place && `place ${pod.place}`];
  made.title = pod.queue ? `queue ${pod.queue}` : "";
  line.replaceChildren(named(`${pod.namespace}/${pod.name || "a pod in creation"}`), ` ${words.filter(Boolean).join(", ")}`);
  setText(unfold.lastChild, pod.why ?? "");
}

// The other lists

export function showLists(panels) {
  find("quotas-panel").hidden = !panels.quotas.length;
  keep(find("quotas"), panels.quotas, (quota) => `${quota.scope}\0${quota.name}\0${quota.unit}`, () => element("li"), showQuota);
  const { containers, in_all } = panels.unlimited, others = in_all - containers.length;
  find("unlimited-panel").hidden = !in_all;
  const unlimited = others > 0 ? [...containers, { others }] : containers;
  keep(find("unlimited"), unlimited, (each) => JSON.stringify(each), () => element("li"), showUnlimited);
  find("denials-panel").hidden = !panels.denials;
  find("denials-none").hidden = !!panels.denials?.length;
  keep(find("denials"), panels.denials ?? [], (denial) => `${denial.reason}\0${denial.namespace}`, () => element("li"), showDenial);
}

function showUnlimited(item, found) {
  if (found.others) return item.replaceChildren(`${numberOf(found.others)} other containers`);
  const name = element("b");
  name.append(named(`${found.namespace}/${found.pod}`));
  return item.replaceChildren(name, "container ", named(found.container), ` uses GPU ${found.gpu} of `, named(found.node), ` without the limiter of its ${memory(found.mib)}`);
}

function showDenial(item, denial) {
  const name = element("b");
  name.append(`${denial.reason}: ${numberOf(denial.pods)} in `, named(denial.namespace));
  item.replaceChildren(name, named(denial.message ?? ""));
}

function showQuota(item, quota) {
  const name = `${quota.scope} ${quota.name}: ${numberOf(quota.used)} of ${numberOf(quota.limit)} ${quota.unit} allocated`;
  const meter = element("meter", "", { max: Math.max(1, quota.limit), value: quota.used });
  meter.setAttribute("aria-label", name);
  item.replaceChildren(named(name), meter);
}

// Follows the server's stream of events, and connects again when it breaks. A token stays in this module.

const SILENCE_MS = 5000; // the server sends a beat every second
const AGAIN_MS = 1000;
let token = "", namespace = "";
let connection; // the AbortController of the stream
let lastEvent = 0;

// `on` has a function for each event, and `frozen(why, since)` and `refused(why)`; `mayFollow()` is asked before each try.
export function follow(on, mayFollow) {
  setInterval(() => lastEvent && Date.now() - lastEvent > SILENCE_MS && connection?.abort(), AGAIN_MS);
  keepFollowing(on, mayFollow);
}

export function useToken(given, only) {
  [token, namespace] = [given, only];
}

async function keepFollowing(on, mayFollow) {
  for (;;) {
    try {
      await connect(on);
      on.frozen("the stream has ended", lastEvent);
    } catch {
      on.frozen("the server does not answer", lastEvent);
    }
    do await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    while (!mayFollow());
  }
}

async function connect(on) {
  connection = new AbortController();
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const query = namespace ? `?${new URLSearchParams({ namespace })}` : "";
  const response = await fetch(`stream${query}`, { headers, signal: connection.signal, cache: "no-store" });
  if (response.ok) return read(response, on);
  const why = (await response.text()).trim().slice(0, 300);
  if (response.status === 401 || response.status === 403) on.refused(why);
  else on.frozen(why, lastEvent);
}

async function read(response, on) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) take(event, on);
  }
}

function take(event, on) {
  // Not with a regular expression: for it U+2028, which names may contain, ends a line too.
  const lines = event.split("\n"), field = (key) => lines.find((line) => line.startsWith(key))?.slice(key.length);
  const name = field("event: "), data = field("data: ");
  lastEvent = Date.now();
  if (name && data) on[name]?.(JSON.parse(data));
}

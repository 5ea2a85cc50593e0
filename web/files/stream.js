// Follows the server's stream of events, and connects again when it breaks.

const SILENCE_MS = 5000; // the server sends a beat every second
const AGAIN_MS = 1000;
let connection; // the AbortController of the stream
let lastEvent = 0;

// `on` has a function for each event, and `frozen(why, since)`.
export function follow(on) {
  setInterval(() => lastEvent && Date.now() - lastEvent > SILENCE_MS && connection?.abort(), AGAIN_MS);
  keepFollowing(on);
}

async function keepFollowing(on) {
  for (;;) {
    try {
      await connect(on);
      on.frozen("the stream has ended", lastEvent);
    } catch {
      on.frozen("the server does not answer", lastEvent);
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

async function connect(on) {
  connection = new AbortController();
  const response = await fetch("stream", { signal: connection.signal, cache: "no-store" });
  if (response.ok) return read(response, on);
  on.frozen((await response.text()).trim().slice(0, 300), lastEvent);
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

// Elements, and lists of them. All text is set as plain text: what users wrote never becomes markup.

export const find = (id) => document.getElementById(id);

export function element(tag, text = "", properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  if (text !== "") made.textContent = text;
  return made;
}

export function setText(where, text) {
  const target = typeof where === "string" ? find(where) : where;
  if (target.textContent !== text) target.textContent = text;
}

// Sets an attribute, or removes it for an empty value.
export function setAttribute(target, name, value) {
  if ((target.getAttribute(name) ?? "") === value) return;
  if (value) target.setAttribute(name, value);
  else target.removeAttribute(name);
}

// Text of someone else: isolated, so that its direction does not reach what is next to it.
export const named = (text) => element("bdi", text);

// Shows one child for each item, in order. A child stays the same element while its key stays, so that focus, scroll
// position, selection and what a reader unfolded survive. `make` returns a new child, `update` fills it.
export function keep(parent, items, keyOf, make, update) {
  const known = parent.known ?? (parent.known = new Map());
  const keys = items.map(keyOf), wanted = new Set(keys);
  for (const [key, child] of known) if (!wanted.has(key)) child.remove(), known.delete(key);
  items.forEach((item, i) => {
    let child = known.get(keys[i]);
    if (!child) known.set(keys[i], (child = make(item)));
    const shown = JSON.stringify(item);
    if (child.shown !== shown) update(child, item), (child.shown = shown);
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
  });
}

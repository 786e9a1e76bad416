// Making and updating elements. Text is only ever set as text: what clients send cannot become markup.

// el makes an element. Properties whose names begin with "on" are listeners, the others attributes; false and undefined ones are left out.
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);

// put sets a text, and leaves the node alone if it has it already: a selection in it stays.
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const kept = new WeakMap();

// list makes the children of a node those of the items, in their order. Nodes are kept by key, so that focus and what was unfolded
// stay. make returns [node, update]; update is called with the item, now and later.
export function list(parent, items, key, make) {
  const before = kept.get(parent) ?? new Map();
  const after = new Map();
  let at = parent.firstChild;
  for (const item of items) {
    const k = key(item);
    if (after.has(k)) continue;
    const entry = before.get(k) ?? make(item);
    after.set(k, entry);
    entry[1](item);
    if (entry[0] === at) at = at.nextSibling;
    else parent.insertBefore(entry[0], at);
  }
  for (const [k, entry] of before) if (!after.has(k)) entry[0].remove();
  kept.set(parent, after);
}

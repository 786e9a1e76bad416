// The shapes of temporary tables, those that saved most first.

import { byId, el, list, put } from './dom.js';
import { brief, count, duration, percent, plural } from './text.js';
import { fallbacks, hazards, worded } from './reasons.js';

const most = 200; // rows

const mean = (timing) => (timing?.count ? brief(timing.seconds / timing.count) : '–');

// facts are what is told of a shape when it is unfolded.
function facts(s) {
  const lines = [
    ['CREATE answered here', mean(s.local?.create)],
    ['CREATE by the server', mean(s.server?.create)],
    ['CREATE sent in its place', mean(s.spliced)],
    ['DROP answered here', mean(s.local?.drop)],
    ['DROP by the server', mean(s.server?.drop)],
    ['Reset behind the DROP', mean(s.reset)],
    ['Parked tables given back', count(s.settles)],
    ['Sent only for diagnostics', count(s.replays)],
  ];
  if (s.choice) lines.push(['Strategy chosen by auto', s.choice.settled ? s.choice.strategy : 'still measuring']);
  return lines;
}

function makeRow(first) {
  const name = el('code', { class: 'shape' });
  const full = el('code', { class: 'full' });
  const terms = el('dl', { class: 'facts' });
  const details = el('details', {}, el('summary', {}, name), full, terms);
  const saved = el('td', { class: 'number', role: 'cell', 'data-label': 'Time saved' });
  const share = el('span');
  const meter = el('meter', { min: 0, max: 1, 'aria-hidden': true });
  const cycles = el('td', { class: 'number', role: 'cell', 'data-label': 'Cycles' });
  const why = el('ul', { class: 'why' });
  const row = el('tr', { role: 'row' }, el('td', { role: 'cell', class: 'wide' }, details), saved,
    el('td', { role: 'cell', 'data-label': 'Reused' }, el('span', { class: 'share' }, meter, share)), cycles,
    el('td', { role: 'cell', 'data-label': 'Left to the server, and hazards', class: 'reasons' }, why));
  put(name, first.shape);
  put(full, first.shape);
  const update = (s) => {
    put(saved, s.saved ? duration(s.saved.seconds) + (s.saved.against === 'native' ? '' : ' *') : '–');
    saved.title = !s.saved ? 'not known yet' : s.saved.against === 'native'
      ? 'against the client’s own CREATEs' : 'against the CREATEs that were sent in place of the client’s, for want of its own';
    saved.classList.toggle('bad', (s.saved?.seconds ?? 0) < 0);
    const ratio = s.cycles > 0 ? s.reuses / s.cycles : 0;
    meter.value = ratio;
    put(share, s.cycles > 0 ? percent(ratio) : '–');
    put(cycles, count(s.cycles));
    const reasons = [];
    if (s.native && !s.fallbacks?.shape_native) reasons.push({ kind: 'left', text: 'left alone for now', n: 0 });
    for (const [text, n] of worded(s.fallbacks, fallbacks)) reasons.push({ kind: 'left', text, n });
    for (const [text, n] of worded(s.hazards, hazards)) reasons.push({ kind: 'hazard', text, n });
    list(why, reasons, (r) => r.kind + r.text, (r) => {
      const node = el('li', { class: r.kind });
      return [node, (r) => put(node, (r.kind === 'hazard' ? '⚠ ' : '') + r.text + (r.n > 0 ? ` (${count(r.n)})` : ''))];
    });
    if (details.open) {
      list(terms, facts(s), ([term]) => term, ([term]) => {
        const value = el('dd');
        return [el('div', {}, el('dt', {}, term), value), ([, text]) => put(value, text)];
      });
    }
  };
  let last = first;
  details.addEventListener('toggle', () => update(last));
  return [row, (s) => update((last = s))];
}

export function showTables(shapes) {
  const sorted = [...shapes].sort((a, b) => (b.saved?.seconds ?? 0) - (a.saved?.seconds ?? 0) || b.cycles - a.cycles || (a.shape < b.shape ? -1 : 1));
  byId('tables-empty').hidden = sorted.length > 0;
  byId('tables').hidden = sorted.length === 0;
  list(byId('tables').tBodies[0], sorted.slice(0, most), (s) => s.shape, makeRow);
  const notes = [];
  if (sorted.some((s) => s.saved && s.saved.against !== 'native')) {
    notes.push('* against the CREATEs that the proxy sent in place of the client’s: the server got none of its own yet.');
  }
  if (sorted.length > most) notes.push(`${plural(sorted.length - most, 'more table')} in /api/shapes.`);
  put(byId('tables-more'), notes.join(' '));
}

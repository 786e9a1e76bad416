// The clients' sessions.

import { byId, el, list, put } from './dom.js';
import { count, plural, when } from './text.js';

const most = 100; // rows

function state(s) {
  if (!s.logged_in) return 'logging in';
  const words = [];
  if (s.raw) words.push('not understood: relayed as it comes');
  if (s.in_transaction) words.push('in a transaction');
  return words.join(', ') || 'between transactions';
}

const strategy = (s) => (s.arm ? `in arm ${s.arm}` : 'as in force');

function makeRow() {
  const cells = ['Client', 'Thread', 'Strategy', 'Tables live', 'Parked', 'Since', 'State'].map((label) =>
    el('td', { role: 'cell', 'data-label': label, class: label === 'Tables live' || label === 'Parked' ? 'number' : undefined }));
  return [el('tr', { role: 'row' }, ...cells), (s) => {
    [s.client, String(s.thread_id), strategy(s), count(s.live), count(s.parked), when(s.since), state(s)].forEach((text, i) => put(cells[i], text));
  }];
}

export function showSessions(sessions) {
  const sum = (key) => sessions.reduce((n, s) => n + s[key], 0);
  const groups = new Map();
  for (const s of sessions) groups.set(strategy(s), (groups.get(strategy(s)) ?? 0) + 1);
  const strategies = [...groups].sort((a, b) => b[1] - a[1]).map(([name, n]) => `${count(n)} ${name}`).join(', ');
  put(byId('sessions-summary'), sessions.length === 0 ? 'No client is connected.'
    : `${plural(sessions.length, 'session')}: ${strategies}. ${plural(sum('live'), 'temporary table')} live, ${count(sum('parked'))} parked.`);
  byId('sessions-table').hidden = sessions.length === 0;
  const sorted = [...sessions].sort((a, b) => b.parked + b.live - a.parked - a.live || a.id - b.id);
  list(byId('sessions-table').tBodies[0], sorted.slice(0, most), (s) => s.id, makeRow);
  put(byId('sessions-more'), sorted.length > most ? `${plural(sorted.length - most, 'more session')} in /api/sessions.` : '');
}

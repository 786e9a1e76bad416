// What to expect of each shape: what strategy observe has seen.

import { byId, el, list, put } from './dom.js';
import { count, duration, percent, plural } from './text.js';

let view = null;

const choices = { keep: 'keep', innodb: 'innodb', none: 'leave alone', unknown: 'not known yet' };

function makeView() {
  const v = { summary: el('p'), notes: el('ul', { class: 'notes' }), cards: el('div', { class: 'advice' }), more: el('p', { class: 'note' }) };
  v.node = el('div', {}, v.summary, v.cards, v.more, v.notes);
  return v;
}

function facts(a) {
  const gain = (e) => (e ? `${duration(e.gain)} (${percent(e.part)})` : 'not possible');
  const lines = [
    ['Cycles', count(a.cycles)],
    ['Sessions', count(a.sessions)],
    ['Cycles per session', a.cycles_per_session.toFixed(1)],
    ['Share of CREATE and DROP', percent(a.ddl)],
    ['Names', count(a.names)],
    ['Rows per cycle', a.cycles > 0 ? (a.rows / a.cycles).toFixed(1) : '–'],
    ['Gain per cycle, keep', gain(a.as_kept)],
    ['Gain per cycle, innodb', gain(a.as_innodb)],
    ['Statements up to which it pays', a.break_even > 0 ? a.break_even.toFixed(1) : 'never'],
  ];
  for (const [what, n] of [['Unordered reads', a.unordered], ['Rollbacks behind writes', a.rolled_back], ['Deadlocks', a.deadlocks], ['Failed writes', a.failed_writes], ['In transactions', a.transactions]]) {
    if (n > 0) lines.push([what, `${count(n)} of ${plural(a.cycles, 'cycle')}`]);
  }
  return lines;
}

function makeCard(first) {
  const what = el('p', { class: 'choice' });
  const sentence = el('p', { class: 'words' });
  const terms = el('dl', { class: 'facts' });
  const card = el('article', { class: 'card' }, el('code', { class: 'full plain' }, first.shape), what, sentence, el('details', {}, el('summary', {}, 'Figures'), terms));
  return [card, (a) => {
    put(what, choices[a.choice] ?? a.choice);
    what.dataset.choice = a.choice;
    put(sentence, a.sentence);
    list(terms, facts(a), ([term]) => term, ([term]) => {
      const value = el('dd');
      return [el('div', {}, el('dt', {}, term), value), ([, text]) => put(value, text)];
    });
  }];
}

export function showAdvice(answer) {
  const place = byId('advice');
  const shapes = answer?.shapes ?? [];
  if (answer === null || (!answer.observing && shapes.length === 0)) {
    view = null;
    place.replaceChildren(el('p', { class: 'empty' },
      'Nothing was observed. With rewrite.strategy: observe the proxy changes nothing, and says here what caching would gain for each table.'));
    return;
  }
  if (view === null) {
    view = makeView();
    place.replaceChildren(view.node);
  }
  put(view.summary, `${answer.observing ? 'Observing' : 'Observed'} ${plural(answer.sessions, 'session')} for ${duration(answer.seconds)}. ${answer.sentence ?? ''}`);
  list(view.cards, shapes, (a) => a.shape, makeCard);
  put(view.more, answer.more > 0 ? `${plural(answer.more, 'more table')} in /api/advice.` : '');
  list(view.notes, answer.notes ?? [], (n) => n, (n) => [el('li', {}, n), () => {}]);
}

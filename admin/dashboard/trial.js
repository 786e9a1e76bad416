// The trial: what it has found, and its start, change and stop.

import { byId, el, list, put } from './dom.js';
import { brief, count, duration, percent, plural, when } from './text.js';
import { look, Plot, showDistribution, showHistory } from './plots.js';

const strategies = ['native', 'innodb', 'keep', 'auto'];
const assignments = { random: 'at random', user: 'by user', schema: 'by schema', host: 'by client host' };

let tools = null;
let report = null;
let view = null;

const choice = (label, values, selected) =>
  el('select', { 'aria-label': label }, ...values.map((v) => el('option', { value: v, selected: v === selected }, v)));

const number = (label, value, extra) => el('input', { type: 'number', 'aria-label': label, min: 0, step: 'any', value, required: true, inputmode: 'decimal', ...extra });

// startForm is where a trial is described.
function startForm() {
  const name = el('input', { type: 'text', id: 'trial-name', required: true, pattern: '[A-Za-z0-9_\\-]+', maxlength: 64, value: 'first', title: 'letters, digits, - and _', spellcheck: 'false', autocomplete: 'off' });
  const assignment = el('select', { id: 'trial-assignment' }, ...Object.entries(assignments).map(([v, words]) => el('option', { value: v }, words)));
  const guardrail = el('input', { type: 'number', id: 'trial-guardrail', min: 1, step: 1, placeholder: 'as the settings say', inputmode: 'numeric' });
  const arms = el('div', { class: 'arms', role: 'group', 'aria-label': 'Arms' });
  const settle = () => {
    for (const row of arms.children) row.querySelector('button').disabled = arms.children.length <= 2;
    more.disabled = arms.children.length >= 8;
  };
  const add = (strategy, weight = 1) => {
    const label = el('input', { type: 'text', 'aria-label': 'Name of the arm', required: true, pattern: '[A-Za-z0-9_\\-]+', maxlength: 32, value: strategy, spellcheck: 'false', autocomplete: 'off' });
    const row = el('div', { class: 'arm' },
      el('label', {}, 'name', label),
      el('label', {}, 'strategy', choice('Strategy', strategies, strategy)),
      el('label', {}, 'weight', number('Weight', weight)),
      el('button', { type: 'button', 'aria-label': 'Remove this arm', onclick: () => { row.remove(); settle(); } }, 'Remove'));
    arms.append(row);
  };
  const more = el('button', { type: 'button', onclick: () => { add('auto'); settle(); arms.lastChild.querySelector('input').focus(); } }, 'Add an arm');
  const form = el('form', { id: 'trial-start', onsubmit: async (event) => {
    event.preventDefault();
    const spec = {
      name: name.value,
      arms: [...arms.children].map((row) => ({ name: row.querySelector('input[type=text]').value, strategy: row.querySelector('select').value, weight: Number(row.querySelector('input[type=number]').value) })),
      assignment: assignment.value,
    };
    if (guardrail.value !== '') spec.guardrail = Number(guardrail.value) / 100;
    await tools.change('api/trial/start', spec, `The trial ${spec.name} is running.`);
  } },
  el('div', { class: 'fields' },
    el('label', {}, 'Name', name),
    el('label', {}, 'Sessions are assigned', assignment),
    el('label', {}, 'Stop an arm that is slower by more than (%)', guardrail)),
  arms,
  el('div', { class: 'buttons' }, el('button', { type: 'submit', class: 'primary' }, 'Start the trial'), more));
  for (const s of ['native', 'innodb', 'keep']) add(s);
  settle();
  return form;
}

// controls changes and stops a running trial.
function controls() {
  const weights = el('div', { class: 'fields' });
  const form = el('form', { class: 'controls', onsubmit: (event) => {
    event.preventDefault();
    const changed = Object.fromEntries([...weights.querySelectorAll('input')].map((input) => [input.name, Number(input.value)]));
    tools.change('api/trial/change', { weights: changed }, 'The new weights count for sessions to come.');
  } },
  weights,
  el('div', { class: 'buttons' },
    el('button', { type: 'submit' }, 'Change weights'),
    el('button', { type: 'button', id: 'trial-stop', class: 'danger', onclick: async () => {
      if (await tools.confirmed('Stop the trial? Its results stay; all sessions are treated as the settings say.', 'Stop it')) {
        tools.change('api/trial/stop', {}, 'The trial has been stopped.');
      }
    } }, 'Stop the trial')));
  return [form, (arms) => list(weights, arms, (a) => a.name, (a) => {
    const input = number(`Weight of ${a.name}`, a.weight, { name: a.name });
    let before = a.weight;
    return [el('label', {}, `weight of ${a.name}`, input), (a) => {
      if (a.weight !== before) input.value = before = a.weight; // changed elsewhere; what is typed here stays otherwise
    }];
  })];
}

const swatch = (i) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  for (const [k, v] of Object.entries({ width: 28, height: 10, class: `swatch arm${i % 8}`, 'aria-hidden': 'true' })) node.setAttribute(k, v);
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
  for (const [k, v] of Object.entries({ x1: 0, x2: 28, y1: 5, y2: 5, 'stroke-width': 3, 'stroke-dasharray': look(i).dash.join(' ') })) line.setAttribute(k, v);
  node.append(line);
  return node;
};

const index = (name) => Math.max(0, report.arms.findIndex((a) => a.name === name));

// signed says by how much a ratio of times differs from 1; 0: it is not known.
const signed = (ratio) => (ratio === 0 ? '–' : Math.abs(ratio - 1) < 5e-4 ? '±0 %' : ratio < 1 ? `−${percent(1 - ratio)}` : `+${percent(ratio - 1)}`);

function verdictCard(v) {
  const outcome = el('p', { class: 'figure' });
  const span = el('p', { class: 'note' });
  const words = el('p', { class: 'words' });
  const card = el('div', { class: 'card verdict' }, el('h3', {}, swatch(index(v.arm)), ` ${v.arm} against ${v.against}`), outcome, span, words);
  return [card, (v) => {
    put(outcome, signed(v.ratio));
    put(span, v.ratio === 0 ? 'cycle time: not known yet' : v.high === null || v.high === undefined
      ? `cycle time; at least ${signed(v.low)}, no upper bound yet` : `cycle time; between ${signed(v.low)} and ${signed(v.high)} (95 %), ${plural(v.sessions, 'session')}`);
    put(words, v.words);
    const known = v.ratio !== 0 && v.high !== null && v.high !== undefined;
    card.className = `card verdict ${known && v.high < 1 ? 'better' : v.ratio !== 0 && v.low > 1 ? 'worse' : 'open'}`;
  }];
}

function table(caption, head) {
  const body = el('tbody');
  return [el('table', {}, el('caption', {}, caption), el('thead', {}, el('tr', {}, ...head.map((h, i) => el('th', { scope: 'col', class: i > 0 ? 'number' : undefined }, h)))), body), body];
}

function rows(body, head, items, key, cells) {
  list(body, items, key, (item) => {
    const tds = head.map((h, i) => el('td', { role: 'cell', 'data-label': h, class: i > 0 ? 'number' : undefined }));
    const name = el('span');
    tds[0].append(el('span', {}, swatch(index(key(item))), ' ', name));
    return [el('tr', { role: 'row' }, ...tds), (item) => cells(item).forEach((text, i) => put(i === 0 ? name : tds[i], text))];
  });
}

const armHead = ['Arm', 'Strategy', 'Weight', 'Sessions', 'Cycles', 'Errors', 'Statement, median', '99 %'];
const shapeHead = ['Arm', 'Cycles', 'Sessions', 'Cycle, median', '99 %', 'CREATE', 'Statements', 'DROP', 'Reset behind', 'Reused', 'Errors'];

function makeView() {
  const v = {};
  v.summary = el('p', { id: 'trial-summary' });
  v.warning = el('p', { class: 'fault', role: 'alert' });
  v.verdicts = el('div', { class: 'cards', id: 'trial-verdicts' });
  [v.controls, v.weights] = controls();
  v.shape = el('select', { id: 'trial-shape', onchange: () => showResults() });
  v.shapeWords = el('p', { class: 'note' });
  v.distribution = new Plot('Distribution of cycle times per arm; the table below has its figures', 280);
  v.history = new Plot('Ratio of cycle times to the control’s over time, with its interval; the verdicts above say how it stands', 260);
  [v.armTable, v.armRows] = table('Arms', armHead);
  [v.shapeTable, v.shapeRows] = table('Cycles', shapeHead);
  v.historyBlock = el('div', {}, el('h3', {}, 'Cycle time against the control’s, with its interval'), v.history.node);
  v.distributionBlock = el('div', {}, el('h3', {}, 'Distribution of cycle times'), v.distribution.node);
  v.results = el('div', {}, v.verdicts, v.historyBlock,
    el('div', { class: 'fields' }, el('label', {}, 'Cycles of', v.shape)), v.shapeWords, v.distributionBlock, v.shapeTable, v.armTable);
  v.start = el('details', { id: 'trial-new' }, el('summary', {}, 'Start a trial'), startForm());
  v.node = el('div', {}, v.summary, v.warning, v.controls, v.results, v.start);
  v.start.open = report.state === 'none';
  return v;
}

const isShape = (s) => s !== '';

// showResults shows the plots and figures of the chosen shape.
function showResults() {
  const shapes = report.shapes ?? [];
  const chosen = shapes.find((s) => isShape(s.shape) && s.shape === view.shape.value) ?? report.overall;
  const arms = chosen?.arms ?? [];
  const order = report.arms.map((a) => a.name);
  put(view.shapeWords, chosen === report.overall ? '' : (chosen.verdicts ?? []).map((v) => `${v.arm}: ${v.words}`).join(' '));
  view.distributionBlock.hidden = !arms.some((a) => a.histogram?.length > 0);
  if (!view.distributionBlock.hidden) showDistribution(view.distribution, arms, order);
  view.shapeTable.hidden = arms.length === 0;
  rows(view.shapeRows, shapeHead, arms, (a) => a.arm, (a) => [a.arm, count(a.cycles), count(a.sessions), brief(a.median), brief(a.p99),
    brief(a.create), brief(a.statements), brief(a.drop), a.reset > 0 ? duration(a.reset) : '–', a.cycles > 0 ? percent(a.reused / a.cycles) : '–', count(a.errors)]);
}

export function showTrial(answer, given) {
  tools = given;
  const place = byId('trial');
  if (answer === null) {
    view = null;
    place.replaceChildren(el('p', { class: 'empty' }, 'This proxy offers no trials.'));
    return;
  }
  const before = report?.state;
  report = { ...answer, arms: answer.arms ?? [] };
  if (view === null) {
    view = makeView();
    place.replaceChildren(view.node);
  } else if (before !== report.state) {
    view.start.open = report.state === 'none';
  }
  const running = report.state === 'running';
  const stopped = report.state === 'stopped';
  const ago = running ? (Date.now() - Date.parse(report.started)) / 1000 : (Date.parse(report.stopped) - Date.parse(report.started)) / 1000;
  put(view.summary, running ? `${report.name} has been running since ${when(report.started)} (${duration(Math.max(1, ago))}). Sessions are assigned ${assignments[report.assignment] ?? report.assignment}; the control is ${report.control}.`
    : stopped ? `${report.name} was stopped at ${when(report.stopped)}, after ${duration(Math.max(1, ago))}. All sessions are treated as the settings say.`
      : 'No trial is running. A trial treats each session in one of several ways and compares the times of their cycles.');
  view.summary.dataset.state = report.state;
  const stops = report.arms.filter((a) => a.stopped_reason).map((a) => `${a.name} was stopped at ${when(a.stopped_at)}: ${a.stopped_reason}.`);
  if (running && report.overridden) stops.unshift('The strategy in force is native: all sessions are left alone, and none is measured.');
  put(view.warning, stops.join(' '));
  view.controls.hidden = !running;
  if (running) view.weights(report.arms);
  view.start.hidden = running;
  view.results.hidden = report.state === 'none';
  if (report.state === 'none') return;

  list(view.verdicts, report.overall?.verdicts ?? [], (v) => `${v.arm} ${index(v.arm)} ${v.against}`, verdictCard);
  const points = report.history ?? [];
  view.historyBlock.hidden = points.length === 0;
  if (points.length > 0) showHistory(view.history, points, report.arms.map((a) => a.name));
  list(view.shape, [{ shape: '' }, ...(report.shapes ?? []).filter((s) => isShape(s.shape))], (s) => s.shape,
    (s) => [el('option', { value: s.shape }, isShape(s.shape) ? s.shape : 'all tables together'), () => {}]);
  showResults();
  rows(view.armRows, armHead, report.arms, (a) => a.name, (a) => [a.name, a.strategy, String(a.weight), count(a.sessions), count(a.cycles), count(a.errors),
    a.statements?.count ? duration(a.statements.median) : '–', a.statements?.count ? duration(a.statements.p99) : '–']);
}

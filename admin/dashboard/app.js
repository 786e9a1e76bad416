// The dashboard: what the running proxy says, asked every two seconds while somebody looks.

import { byId, el, put } from './dom.js';
import { count, duration, percent, plural, when } from './text.js';
import { get, hasToken, keepToken, dropToken, post, Refused } from './api.js';
import { showTables } from './tables.js';
import { showTrial } from './trial.js';
import { showAdvice } from './advice.js';
import { showSessions } from './sessions.js';

const interval = 2000; // ms

// Pages by the hash that shows them: what they ask for and who shows the answer.
const pages = {
  tables: { path: 'api/shapes', show: showTables },
  trial: { path: 'api/trial', show: showTrial },
  advice: { path: 'api/advice', show: showAdvice },
  'sessions-page': { path: 'api/sessions', show: showSessions },
};

let page = '';
let status = null;
let timer = 0;
let round = 0; // of asking; an older round's answers are not shown any more

function message(text, fault = false) {
  const node = el('p', { class: fault ? 'message fault' : 'message' }, text);
  byId('messages').replaceChildren(node);
  setTimeout(() => node.remove(), 8000);
}

let answered = Promise.resolve(); // when the last dialog was left

// answer opens a dialog, behind any other, and returns whether it was left by its first button.
function answer(dialog) {
  answered = answered.then(() => new Promise((resolve) => {
    dialog.returnValue = '';
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'ok'), { once: true });
    dialog.showModal();
  }));
  return answered;
}

async function askToken(fault) {
  const field = byId('token');
  field.value = '';
  put(byId('token-fault'), fault);
  const given = await answer(byId('token-dialog'));
  const token = field.value.trim();
  field.value = '';
  if (given && token !== '') keepToken(token);
  return given && token !== '';
}

async function confirmed(text, yes) {
  put(byId('confirm-text'), text);
  put(byId('confirm-ok'), yes);
  return answer(byId('confirm-dialog'));
}

// change asks the proxy to change something, after the token where one is needed; undefined: it was not done.
async function change(path, body, done) {
  let fault = '';
  for (;;) {
    if (status?.changes === 'token' && (fault !== '' || !hasToken()) && !(await askToken(fault))) return undefined;
    try {
      const result = await post(path, body);
      message(done);
      poll();
      return result;
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 401) {
        message(`Not done: ${error.message}`, true);
        return undefined;
      }
      dropToken();
      fault = 'This token is not the proxy’s.';
    }
  }
}

const tools = { change, confirmed, message, changes: () => status?.changes };

function showStatus(s) {
  status = s;
  const { strategy, totals } = s;
  put(byId('version'), s.version);
  put(byId('strategy'), strategy.in_force);
  const why = strategy.switched ? `switched by an operator at ${when(strategy.since)}; the settings say ${strategy.configured}` : `as the settings say, since ${when(strategy.since)}`;
  const trial = !s.trial ? '' : strategy.in_force === 'native' ? `; trial ${s.trial} waits` : `; trial ${s.trial} is running`;
  put(byId('strategy-note'), why + trial);
  byId('strategy-card').classList.toggle('switched', strategy.switched);
  const button = byId('switch');
  put(button, strategy.switched ? `Back to ${strategy.configured}` : 'Switch to native');
  button.disabled = s.changes === 'refused';
  button.title = button.disabled ? 'Takes admin.token_file, or an admin.address that is a unix socket' : 'Holds for every next cycle; no connection is dropped';
  put(byId('sessions'), count(s.sessions));
  put(byId('uptime'), `the proxy is up ${duration(s.uptime_seconds)}`);
  put(byId('reused'), totals.cycles > 0 ? percent(totals.reuses / totals.cycles) : '–');
  put(byId('reuses'), `${count(totals.reuses)} of ${plural(totals.cycles, 'cycle')}`);
  put(byId('saved'), totals.reuses > 0 ? duration(totals.saved_seconds) : '–');
  put(byId('state'), s.draining ? 'shutting down' : 'live');
  document.body.dataset.state = s.draining ? 'draining' : 'live';
}

async function poll() {
  clearTimeout(timer);
  const mine = ++round;
  const shown = pages[page];
  try {
    const [s, answer] = await Promise.all([get('api/status'), get(shown.path)]);
    if (mine !== round) return;
    showStatus(s);
    shown.show(answer, tools);
    document.body.dataset.page = page;
  } catch (error) {
    if (mine !== round) return;
    put(byId('state'), `no answer: ${error.message}`);
    document.body.dataset.state = 'lost';
  }
  if (!document.hidden) timer = setTimeout(poll, interval);
}

// turn shows the page that the address names.
function turn() {
  const named = location.hash.slice(1);
  page = named in pages ? named : 'tables';
  for (const name of Object.keys(pages)) byId(`page-${name}`).hidden = name !== page;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.hash === `#${page}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  poll();
}

byId('switch').addEventListener('click', async () => {
  const to = status.strategy.switched ? 'configured' : 'native';
  const result = await change('api/strategy', { strategy: to }, to === 'native' ? 'Every next cycle is left to the server.' : 'The settings are in force again.');
  if (result) showStatus({ ...status, strategy: result });
});

addEventListener('hashchange', turn);
document.addEventListener('visibilitychange', () => (document.hidden ? clearTimeout(timer) : poll()));
turn();

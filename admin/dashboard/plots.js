// Plots of a trial, drawn by uPlot.

/* global uPlot */

import { el } from './dom.js';
import { duration, percent, when } from './text.js';

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = matchMedia('(prefers-color-scheme: dark)');
const dashes = [[], [8, 4], [2, 3], [8, 3, 2, 3], [14, 4], [4, 4], [10, 2, 2, 2, 2, 2], [1, 4]];

// look is how the arm at an index is drawn: by colour and, where colours cannot be told apart, by dashes.
export const look = (i) => ({ stroke: style(`--arm${i % 8}`), dash: dashes[i % 8] });

const axis = (extra) => ({
  stroke: style('--soft'), grid: { stroke: style('--line'), width: 1 }, ticks: { stroke: style('--line'), width: 1 },
  font: '12px system-ui, sans-serif', ...extra,
});

// Plot is a place for one plot. show draws data there, and draws it anew when the width or the colours of the page change.
export class Plot {
  constructor(label, height) {
    this.height = height;
    this.node = el('div', { class: 'plot', role: 'img', 'aria-label': label });
    this.plot = null;
    this.shown = '';
    new ResizeObserver(() => this.fit()).observe(this.node);
    dark.addEventListener('change', () => this.draw());
  }

  // show draws options' series of data. what tells one set of options from another: with the same only the data change.
  show(what, options, data) {
    this.options = options;
    this.data = data;
    if (this.plot && what === this.shown) {
      this.plot.setData(data);
      return;
    }
    this.shown = what;
    this.draw();
  }

  draw() {
    if (!this.options || this.node.clientWidth === 0) return;
    this.plot?.destroy();
    this.plot = new uPlot({ width: this.node.clientWidth, height: this.height, ...this.options() }, this.data, this.node);
  }

  fit() {
    if (this.node.clientWidth === 0) return;
    if (!this.plot) this.draw();
    else if (this.plot.width !== this.node.clientWidth) this.plot.setSize({ width: this.node.clientWidth, height: this.height });
  }
}

// tick says a time of the axis: 500 µs, 1 ms.
const tick = (v) => (v < 0.9995e-3 ? `${+(v * 1e6).toPrecision(3)} µs` : v < 0.9995 ? `${+(v * 1e3).toPrecision(3)} ms` : `${+v.toPrecision(3)} s`);

const perDecade = 12; // bins of a histogram

// binned adds up [upper bound, cycles] in bins of equal width on a logarithmic scale: a map from the bin's number to its share.
function binned(histogram) {
  const bins = new Map();
  let all = 0;
  for (const [bound, n] of histogram ?? []) {
    if (!(bound > 0)) continue;
    const bin = Math.ceil(Math.log10(bound) * perDecade - 1e-9);
    bins.set(bin, (bins.get(bin) ?? 0) + n);
    all += n;
  }
  for (const [bin, n] of bins) bins.set(bin, n / all);
  return bins;
}

// showDistribution draws the share of cycles by their time. arms are a ShapeReport's, order the names of the trial's arms.
export function showDistribution(plot, arms, order) {
  const bins = arms.map((a) => binned(a.histogram));
  const numbers = bins.flatMap((b) => [...b.keys()]);
  if (numbers.length === 0) return false;
  const first = Math.min(...numbers) - 1;
  const last = Math.max(...numbers) + 1;
  const x = [];
  const ys = arms.map(() => []);
  for (let bin = first; bin <= last; bin++) {
    x.push(10 ** ((bin - 0.5) / perDecade)); // the middle
    bins.forEach((b, i) => ys[i].push(b.get(bin) ?? 0));
  }
  plot.show(arms.map((a) => a.arm).join(), () => ({
    scales: { x: { time: false, distr: 3, range: (_, min, max) => [min, max] }, y: { range: (_, __, max) => [0, max * 1.1 || 1] } },
    axes: [
      axis({
        label: 'time of a cycle', labelFont: '12px system-ui, sans-serif', labelSize: 20,
        filter: (u, splits) => splits.map((v) => ((u.width > 600 ? [1, 2, 5] : [1, 5]).some((n) => Math.abs(v / 10 ** Math.floor(Math.log10(v) + 1e-9) - n) < 0.01) ? v : null)),
        values: (_, splits) => splits.map((v) => (v == null ? '' : tick(v))),
      }),
      axis({ values: (_, splits) => splits.map((v) => `${+(v * 100).toFixed(1)} %`), size: 56 }),
    ],
    series: [{ label: 'time', value: (_, v) => (v == null ? '–' : duration(v)) }, ...arms.map((a) => {
      const { stroke, dash } = look(order.indexOf(a.arm));
      return { label: a.arm, stroke, dash, width: 2, fill: stroke + '22', points: { show: false }, paths: uPlot.paths.spline(), value: (_, v) => (v == null ? '–' : percent(v)) };
    })],
    cursor: { y: false, drag: { x: false, y: false } },
  }), [x, ...ys]);
  return true;
}

const highest = 3; // ratios above are drawn here

// showHistory draws the intervals of ratios over time. points are a Report's history.
export function showHistory(plot, points, order) {
  const names = order.filter((name) => points.some((p) => p.arm === name));
  if (names.length === 0) return false;
  const x = [...new Set(points.map((p) => Date.parse(p.at) / 1000))].sort((a, b) => a - b);
  const at = new Map(x.map((t, i) => [t, i]));
  const columns = names.flatMap((name) => {
    const three = [new Array(x.length).fill(null), new Array(x.length).fill(null), new Array(x.length).fill(null)];
    for (const p of points) {
      if (p.arm !== name) continue;
      const i = at.get(Date.parse(p.at) / 1000);
      [p.ratio, p.low, p.high > 0 ? Math.min(p.high, highest) : highest].forEach((v, k) => (three[k][i] = v));
    }
    return three;
  });
  plot.show(names.join(), () => ({
    scales: { y: { range: (_, min, max) => [Math.min(min ?? 0.9, 0.9) - 0.05, Math.min(Math.max(max ?? 1.1, 1.1) + 0.05, highest)] } },
    axes: [
      axis({ values: (_, splits) => splits.map((t) => when(t * 1000).slice(-8)), space: 80 }),
      axis({ values: (_, splits) => splits.map((v) => v.toFixed(2)), size: 50 }),
    ],
    series: [{ label: 'at', value: (_, t) => (t == null ? '–' : when(t * 1000)) }, ...names.flatMap((name) => {
      const { stroke, dash } = look(order.indexOf(name));
      const value = (_, v) => (v == null ? '–' : v >= highest ? `≥ ${highest}` : v.toFixed(3));
      const edge = { stroke: stroke + '66', width: 1, points: { show: false }, spanGaps: true, value };
      return [{ label: name, stroke, dash, width: 2, points: { show: x.length < 3 }, spanGaps: true, value }, { ...edge, label: `${name} from` }, { ...edge, label: `${name} to` }];
    })],
    bands: names.map((name, i) => ({ series: [3 * i + 3, 3 * i + 2], fill: look(order.indexOf(name)).stroke + '2a' })),
    hooks: { drawAxes: [(u) => { // the line of no difference
      const y = Math.round(u.valToPos(1, 'y', true)) + 0.5;
      u.ctx.save();
      u.ctx.strokeStyle = style('--ink');
      u.ctx.lineWidth = 1;
      u.ctx.setLineDash([4, 4]);
      u.ctx.beginPath();
      u.ctx.moveTo(u.bbox.left, y);
      u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
      u.ctx.stroke();
      u.ctx.restore();
    }] },
    cursor: { y: false, drag: { x: false, y: false } },
  }), [x, ...columns]);
  return true;
}

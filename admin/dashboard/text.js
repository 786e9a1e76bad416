// Figures and words for people.

const whole = new Intl.NumberFormat('en');

export const count = (n) => whole.format(n);

export const plural = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`;

const digits = (x) => (Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 10 ? x.toFixed(1) : x.toFixed(2));

// duration says seconds with a unit: 12.3 µs, 4.56 ms, 7.89 s, 3 min 5 s, 4 h 10 min, 3 d 4 h.
export function duration(seconds) {
  if (seconds < 0) return '−' + duration(-seconds);
  if (seconds === 0) return '0 s';
  if (seconds < 0.9995e-3) return digits(seconds * 1e6) + ' µs';
  if (seconds < 0.9995) return digits(seconds * 1e3) + ' ms';
  if (seconds < 60) return digits(seconds) + ' s';
  const s = Math.round(seconds);
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// brief says a duration of which less than a microsecond is not known.
export const brief = (seconds) => (seconds < 1e-6 ? '< 1 µs' : duration(seconds));

// percent says a share; a share that is not quite 0 or 1 does not look so.
export function percent(share) {
  if (!Number.isFinite(share)) return '–';
  const p = share * 100;
  if (p > 0 && p < 0.1) return '< 0.1 %';
  if (p < 100 && p > 99.9) return '> 99.9 %';
  return (Math.abs(p) >= 10 || p === 0 ? p.toFixed(p > 99 && p < 100 ? 1 : 0) : p.toFixed(1)) + ' %';
}

const two = (n) => String(n).padStart(2, '0');

// when says a time: the day only if it is not today.
export function when(stamp) {
  const d = new Date(stamp);
  if (Number.isNaN(d.getTime())) return '–';
  const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return d.toDateString() === new Date().toDateString() ? time : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
}

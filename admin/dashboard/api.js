// Requests to the proxy that serves this page, and to nobody else.

const patience = 10_000; // ms
const storage = 'tmpproxy-token';

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// get returns an answer, or null where the proxy has no such page.
export async function get(path) {
  const response = await fetch(path, { signal: AbortSignal.timeout(patience) });
  if (response.status === 404) return null;
  if (!response.ok) throw new Refused(response.status, (await response.text()).trim());
  return response.json();
}

export const hasToken = () => sessionStorage.getItem(storage) !== null;
export const keepToken = (token) => sessionStorage.setItem(storage, token);
export const dropToken = () => sessionStorage.removeItem(storage);

// post asks for a change, with the token if there is one.
export async function post(path, body) {
  const headers = { 'Content-Type': 'application/json' };
  const token = sessionStorage.getItem(storage);
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body), signal: AbortSignal.timeout(patience) });
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  let told = text.trim();
  try {
    told = JSON.parse(text).error ?? told;
  } catch {
    // not JSON: as it is
  }
  throw new Refused(response.status, told);
}

import type { ClientOptions } from '@parlance/client';

/**
 * Every option of this page's connections. With the store, a page that is loaded again continues with its session.
 *
 * @param server a server of another address gets a profile of its own, and never the token that the user has entered.
 */
export function connectOptions(server: string): ClientOptions {
  if (!isOwn(server)) return { token: profile(`${KEY} ${server}`), store };
  // The server of this page has said so in its document.
  const transports =
    'http' in document.documentElement.dataset ? (['websocket', 'http'] as const) : undefined;
  return { token: readToken() ?? profile(KEY), store, transports };
}

export function isOwn(server: string): boolean {
  return URL.canParse(server) && new URL(server).host === location.host;
}

/** Remembers the token that the server asks for, as long as this tab is open. */
export function enterToken(token: string): void {
  try {
    sessionStorage.setItem(TOKEN_KEY, token);
  } catch {
    enteredToken = token;
  }
}

/** Forgets all that this tab has stored: the token, and the session. */
export function forgetTab(): void {
  enteredToken = undefined;
  try {
    sessionStorage.clear();
  } catch {
    // Nothing was stored.
  }
}

let enteredToken: string | undefined;

/** The token that the user has entered. */
export function readToken(): string | undefined {
  try {
    return sessionStorage.getItem(TOKEN_KEY) ?? enteredToken;
  } catch {
    return enteredToken;
  }
}

/** Names this tab in the address of its socket, so that the demo can break the right connection. */
export function tabName(): string {
  try {
    const kept = sessionStorage.getItem(TAB_KEY);
    if (kept !== null) return kept;
    const fresh = randomName();
    sessionStorage.setItem(TAB_KEY, fresh);
    return fresh;
  } catch {
    return randomName();
  }
}

/** Gives this tab another name. */
export function renameTab(name: string): void {
  try {
    sessionStorage.setItem(TAB_KEY, name);
  } catch {
    // The browser blocks storage: each call of `tabName` returns another name.
  }
}

const KEY = 'parlance-profile';
const TOKEN_KEY = 'parlance-token';
const TAB_KEY = 'parlance-tab';
const store = tabStore();

/** If the browser blocks storage, a profile lasts until the page is loaded again. */
const profiles = new Map<string, string>();

/**
 * Who this browser is to the server: the replies that the server keeps belong to the pages that present this token. An
 * application with users sends the token of their login in its place.
 */
function profile(key: string): string {
  const known = profiles.get(key) ?? stored(key) ?? created(key);
  profiles.set(key, known);
  return known;
}

function stored(key: string): string | undefined {
  try {
    return localStorage.getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

/** `undefined` if the browser blocks storage: then each page begins a session. */
function tabStore(): Storage | undefined {
  try {
    return sessionStorage;
  } catch {
    return undefined;
  }
}

function created(key: string): string {
  const fresh = randomName();
  try {
    localStorage.setItem(key, fresh);
  } catch {
    // As above.
  }
  return fresh;
}

/** 32 hexadecimal digits. */
export function randomName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');
}

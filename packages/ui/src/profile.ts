import type { ClientOptions } from '@parlance/client';

/** Every option of this page's connections. With the store, a page that is loaded again goes on with its session. */
export function connectOptions(): ClientOptions {
  return { token, store };
}

const KEY = 'parlance-profile';
const store = tabStore();

/**
 * Who this browser is to the server: the replies that the server keeps belong to the pages that present this token. An application
 * with users sends the token of their login in its place.
 */
const token = stored() ?? created();

function stored(): string | undefined {
  try {
    return localStorage.getItem(KEY) ?? undefined;
  } catch {
    // The browser blocks storage; then the profile lasts until the page is loaded again.
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

function created(): string {
  const fresh = randomName();
  try {
    localStorage.setItem(KEY, fresh);
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

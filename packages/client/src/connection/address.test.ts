import { afterEach, describe, expect, it, vi } from 'vitest';
import { resolveUrl } from './address.js';

afterEach(() => vi.unstubAllGlobals());

describe('the URL of a server', () => {
  it.each<[string | URL, string]>([
    ['wss://app.example', 'wss://app.example/session'],
    ['wss://app.example:8443', 'wss://app.example:8443/session'],
    ['https://app.example?key=1', 'wss://app.example/session?key=1'],
    [' WS://[::1]:8765 ', 'ws://[::1]:8765/session'],
    // A path is what it is, also the shortest one, which a URL object always has.
    ['wss://app.example/', 'wss://app.example/'],
    ['wss://app.example/?key=1', 'wss://app.example/?key=1'],
    ['wss://app.example/chat', 'wss://app.example/chat'],
    [new URL('wss://app.example'), 'wss://app.example/'],
  ])('%s is %s', async (given, url) => {
    expect(String(await resolveUrl(given))).toBe(url);
  });

  it.each<[string, string]>([
    ['/session', 'wss://app.example/session'],
    ['session', 'wss://app.example/chat/session'],
    ['//api.example', 'wss://api.example/session'],
    ['', 'wss://app.example/chat/'],
  ])('%s refers to the server of a page: %s', async (given, url) => {
    vi.stubGlobal('location', { href: 'https://app.example/chat/' });
    expect(String(await resolveUrl(given))).toBe(url);
  });

  it.each(['app.example', 'ftp://app.example', '/session', 'wss://app.example#there', 5 as never])(
    'is none: %s',
    async (given) => {
      await expect(resolveUrl(given)).rejects.toMatchObject({ code: 'invalid_option' });
    },
  );
});

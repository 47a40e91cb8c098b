import { describe, expect, it } from 'vitest';
import { admitsOrigin, faultOfOrigin, faultOfPath } from './origins.js';

describe('origins', () => {
  it.each([
    'https://app.example',
    'http://localhost:5173',
    'https://app.example:8443',
    'https://xn--4ca.example',
    'http://[::1]:3000',
    'capacitor://localhost',
    'ionic://localhost',
    'tauri://localhost',
    'http://tauri.localhost',
    'app://-',
    'app://.',
    'file://',
    'null',
    'chrome-extension://abcdefghijklmnopabcdefghijklmnop',
    'moz-extension://3c8a1c5e-3a5b-4b5e-9d5c-1c2d3e4f5a6b',
    'safari-web-extension://3C8A1C5E'.toLowerCase(),
    'vscode-webview://1a2b',
  ])('admit %s, and nothing else', (origin) => {
    expect(faultOfOrigin(origin)).toBe(undefined);
    expect(admitsOrigin(origin, origin)).toBe(true);
    for (const other of ['https://evil.example', `${origin}.evil.example`, `${origin}:1`, ''])
      expect(admitsOrigin(origin, other)).toBe(false);
  });

  it.each([
    ['https://a.app.example', true],
    ['https://a.b.app.example', true],
    ['https://app.example', false],
    ['http://a.app.example', false],
    ['https://a.app.example:8443', false],
    ['https://evil.example/.app.example', false],
    ['https://evil.example:1.app.example', false],
    ['https://user@a.app.example', false],
    ['https://.app.example', false],
    ['https://evilapp.example', false],
  ])('of subdomains have a wildcard: %s, %s', (origin, isAdmitted) => {
    expect(faultOfOrigin('https://*.app.example')).toBe(undefined);
    expect(admitsOrigin('https://*.app.example', origin)).toBe(isAdmitted);
  });

  it('of this machine may have any name', () => {
    expect(faultOfOrigin('http://*.localhost:3000')).toBe(undefined);
    expect(admitsOrigin('http://*.localhost:3000', 'http://shop.localhost:3000')).toBe(true);
  });

  it.each([
    ['app.example', 'write it as https://app.example'],
    ['https://app.example/', 'write it as https://app.example'],
    ['https://App.example', 'write it as https://app.example'],
    ['https://app.example:443', 'write it as https://app.example'],
    ['https://ä.example', 'write it as https://xn--4ca.example'],
    ['wss://app.example', 'write it as https://app.example'],
    ['ws://localhost:3000', 'write it as http://localhost:3000'],
    ['file:///', 'write it as file://'],
    ['Capacitor://localhost', 'write it as capacitor://localhost'],
    ['capacitor://localhost/', 'write it as capacitor://localhost'],
    ['https://*', 'a wildcard stands'],
    ['https://*.app.example/', 'write it as'],
    ['https://*.example', 'a wildcard stands'],
    ['https://app.*.example', 'a wildcard stands'],
    ['https://*app.example', 'a wildcard stands'],
    ['*.app.example', 'a wildcard stands'],
    ['', 'write it as https://app.example'],
    [7, 'write it as https://app.example'],
  ])('that no page has are refused: %s', (origin, why) => {
    expect(faultOfOrigin(origin)).toContain(why);
  });
});

describe('paths', () => {
  it.each(['/session', '/', '/a/b/', '/%C3%A4', '//x', '/|', '/a:b'])(
    'are as clients write them: %s',
    (path) => {
      expect(faultOfPath(path)).toBe(undefined);
    },
  );

  it.each([
    ['/ä', '"/%C3%A4"'],
    ['/a b', '"/a%20b"'],
    ['/s?x=1', '"/s"'],
    ['/s#x', '"/s"'],
    ['/s?', '"/s"'],
    ['/a/../b', '"/b"'],
    ['/a\\b', '"/a/b"'],
    ['/"', '"/%22"'],
    ['session', 'must begin with "/"'],
    ['', 'must begin with "/"'],
  ])('that no client asks for are refused: %s', (path, why) => {
    expect(faultOfPath(path)).toContain(why);
  });
});

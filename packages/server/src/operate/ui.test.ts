import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addressOfPages, createUserInterface } from './ui.js';

interface Answer {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

describe('the user interface', () => {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-ui-'));
  const http = createServer();
  let port = 0;

  beforeAll(async () => {
    mkdirSync(join(folder, 'assets'));
    writeFileSync(join(folder, 'index.html'), '<!doctype html><title>page</title>');
    writeFileSync(join(folder, 'inspect.html'), '<!doctype html><title>inspector</title>');
    writeFileSync(join(folder, 'assets', 'index-abc.js'), 'export {};');
    writeFileSync(join(folder, 'licenses.md'), 'not for browsers');
    writeFileSync(join(folder, '..', 'parlance-ui-secret.html'), 'secret');
    const respond = createUserInterface({ folder, hosts: ['chat.example'] });
    http.on('request', (asked, response) => {
      if (!respond(asked, response)) response.writeHead(426).end('upgrade');
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    port = (http.address() as AddressInfo).port;
  });
  afterAll(() => {
    http.close();
    rmSync(folder, { recursive: true });
    rmSync(join(folder, '..', 'parlance-ui-secret.html'));
  });

  /** `path` is sent as it is, without normalization. */
  function get(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const asked = request({ host: '127.0.0.1', port, path, method, headers }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () =>
          resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }),
        );
      });
      asked.on('error', reject);
      asked.end();
    });
  }

  it('is a document at the root, without a redirect, under a strict policy', async () => {
    for (const path of ['/', '/?model=x']) {
      const { status, headers, body } = await get(path);
      expect(status).toBe(200);
      expect(headers['content-type']).toBe('text/html; charset=utf-8');
      expect(body.toString()).toContain('<title>page</title>');
      expect(headers['cache-control']).toBe('no-cache');
      expect(headers['x-content-type-options']).toBe('nosniff');
      const policy = String(headers['content-security-policy']);
      for (const directive of [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        `connect-src 'self' ws://127.0.0.1:${port} wss://127.0.0.1:${port}`,
        "require-trusted-types-for 'script'",
      ])
        expect(String(policy).split('; ')).toContain(directive);
      expect(policy).not.toMatch(/unsafe|\*/);
    }
  });

  it('has an inspector beside it, for the same browsers', async () => {
    const shown = await get('/inspect?x');
    expect([shown.status, shown.body.toString()]).toEqual([200, '<!doctype html><title>inspector</title>']);
    expect((await get('/inspect', { host: 'evil.example' })).status).toBe(403);
    expect((await get('/inspect', { origin: 'http://evil.example' })).status).toBe(403);
    expect((await get('/inspect', { 'x-forwarded-for': '10.0.0.1' })).status).toBe(426);
    expect((await get('/inspect/')).status).toBe(426);
  });

  it('is kept by browsers: files for ever, the document until it changes', async () => {
    const asset = await get('/assets/index-abc.js');
    expect(asset.headers['content-type']).toBe('text/javascript; charset=utf-8');
    expect(asset.headers['cache-control']).toBe('public, max-age=31536000, immutable');
    const { etag = '' } = (await get('/')).headers;
    const again = await get('/', { 'if-none-match': etag });
    expect([again.status, again.body.length]).toEqual([304, 0]);
    expect((await get('/', { 'if-none-match': '"other"' })).status).toBe(200);
  });

  it('is compressed for browsers that understand it', async () => {
    const { headers, body } = await get('/', { 'accept-encoding': 'br, gzip' });
    expect(headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(body).toString()).toContain('<title>page</title>');
    expect((await get('/')).headers['content-encoding']).toBeUndefined();
  });

  it('answers HEAD without a body', async () => {
    const { status, headers, body } = await get('/', {}, 'HEAD');
    expect([status, body.length]).toEqual([200, 0]);
    expect(Number(headers['content-length'])).toBeGreaterThan(0);
  });

  it('answers nothing but its own files', async () => {
    for (const path of [
      '/other',
      '/assets',
      '/assets/',
      '/licenses.md',
      '/../parlance-ui-secret.html',
      '/assets/../../parlance-ui-secret.html',
      '/%2e%2e/parlance-ui-secret.html',
      '/constructor',
      '/__proto__',
      '//',
      'http://127.0.0.1/',
    ])
      expect([path, (await get(path)).status]).toEqual([path, 426]);
    expect((await get('/', {}, 'POST')).status).toBe(426);
  });

  it('is shown under names of this machine and listed ones, and no others', async () => {
    for (const host of [
      '127.0.0.1:1',
      'localhost:99',
      'a.localhost',
      '[::1]:1',
      'chat.example',
      'chat.example:8',
    ])
      expect([host, (await get('/', { host })).status]).toEqual([host, 200]);
    for (const host of ['evil.example', '127.0.0.1.evil.example', 'chat.example.evil', '10.0.0.1'])
      for (const path of ['/', '/assets/index-abc.js'])
        expect([host, (await get(path, { host })).status]).toEqual([host, 403]);
  });

  it('is not for pages of other origins', async () => {
    const own = `http://127.0.0.1:${port}`;
    expect((await get('/assets/index-abc.js', { origin: own })).status).toBe(200);
    for (const origin of [
      'http://evil.example',
      'null',
      `http://localhost:${port}`,
      `http://127.0.0.1:${port + 1}`,
    ]) {
      const { status, headers } = await get('/assets/index-abc.js', { origin });
      expect([origin, status]).toEqual([origin, 403]);
      expect(headers['access-control-allow-origin']).toBeUndefined();
    }
  });

  it('is not for clients of a proxy', async () => {
    for (const headers of [{ 'x-forwarded-for': '10.0.0.1' }, { forwarded: 'for=10.0.0.1' }])
      expect((await get('/', headers as Record<string, string>)).status).toBe(426);
  });

  it.each([
    ['ws://127.0.0.1:8/session', 'http://127.0.0.1:8/'],
    ['ws://127.0.0.2:8/session', 'http://127.0.0.2:8/'],
    ['ws://[::1]:8/session', 'http://[::1]:8/'],
    ['ws://10.0.0.7:8/session', undefined],
    ['ws://[fd00::7]:8/session', undefined],
  ])('of a server at %s is at %s', (url, address) => {
    expect(addressOfPages({ url })).toBe(address);
  });

  it('names a folder without pages, and unknown options', () => {
    expect(() => createUserInterface({ folder: join(folder, 'assets') })).toThrow(/has no pages/);
    expect(() => createUserInterface({ hots: [] } as never)).toThrow(/hots/);
    for (const options of [{}, undefined])
      expect(() => createUserInterface(options as never)).toThrow(/folder: name one/);
  });
});

import { webcrypto } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { keyOf } from './key.js';
import { resolveSharing, sharedOptionsOf } from './options.js';

describe('the options of a shared session', () => {
  it('cross to the host if they can, and stay in the tab if they belong to it', () => {
    const options = {
      algorithms: ['NONE'] as const,
      limits: { maxStreams: 3 },
      reconnect: false as const,
      subprotocol: undefined,
      transports: ['websocket', 'http'] as const,
      token: 'secret',
      traceparent: () => undefined,
      shared: true,
    };
    expect(sharedOptionsOf(options)).toEqual({
      algorithms: ['NONE'],
      limits: { maxStreams: 3 },
      reconnect: false,
      transports: ['websocket', 'http'],
    });
  });

  it.each([
    'onRequest',
    'batch',
    'agent',
    'agentId',
    'avp',
    'transfers',
    'WebSocket',
    'security',
    'store',
    'inventedLater',
  ])('do not include %s, and the error says so', (name) => {
    expect(() => sharedOptionsOf({ [name]: {} })).toThrow(
      expect.objectContaining({
        code: 'invalid_option',
        message: expect.stringMatching(new RegExp(`^${name}: .* shared: .{10}`)),
      }),
    );
  });

  it('name the script of the worker as a URL', () => {
    expect(resolveSharing(true)).toEqual({ worker: undefined });
    expect(resolveSharing({ worker: 'https://a.example/w.js' }).worker?.href).toBe('https://a.example/w.js');
    expect(resolveSharing({ worker: '/relative.js' }).worker?.pathname).toBe('/relative.js');
    expect(() => resolveSharing({ worker: 'http://' })).toThrow('shared.worker: the URL');
    expect(() => resolveSharing({ wroker: 'x' } as object)).toThrow('did you mean "worker"');
  });
});

describe('the key of a shared session', () => {
  const subtle = webcrypto.subtle as SubtleCrypto;
  const content = { url: 'wss://a.example/', options: { limits: { a: 1, b: Infinity } }, token: 'secret' };

  it('is the same for equal content in any order, and a digest', async () => {
    const reordered = {
      token: 'secret',
      options: { limits: { b: Infinity, a: 1 }, batch: undefined },
      url: content.url,
    };
    const key = await keyOf(content, subtle);
    expect(await keyOf(reordered, subtle)).toEqual(key);
    expect(key.digest).toMatch(/^[0-9a-f]{64}$/);
    expect(key.exact).toBe(key.digest);
  });

  it.each([
    { ...content, token: 'other' },
    { ...content, token: undefined },
    { ...content, url: 'wss://b.example/' },
    { ...content, options: { limits: { a: 1, b: null } } },
    { ...content, options: { limits: { a: '1', b: Infinity } } },
  ])('differs for %j', async (other) => {
    expect((await keyOf(other, subtle)).exact).not.toBe((await keyOf(content, subtle)).exact);
    expect((await keyOf(other, undefined)).exact).not.toBe((await keyOf(content, undefined)).exact);
  });

  it('has no name without cryptography', async () => {
    expect((await keyOf(content, undefined)).digest).toBeUndefined();
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS, DEFAULT_TIMERS } from '../base/limits.js';
import { linkParameters } from './agreement.js';
import { acceptFields, helloFields, parseAccept, parseHello } from './capabilities.js';
import type { AcceptPayload, HelloPayload } from './messages.js';
import { areStandard, expandExtensions, STANDARD_VALUES, shortenExtensions } from './standard.js';

const LINK = '{"max_streams":128,"message_window":1048576,"stream_window":16384,"max_transfer":1073741824}';
const CONTEXT = '{"max_bytes":4194304,"max_messages":8}';

describe('extensions', () => {
  it('are stated with the members that are not standard', () => {
    const unread = LINK.replace('}', ',"messages":false}');
    expect(shortenExtensions({ link: LINK, context: CONTEXT, std: '1' })).toEqual({
      link: '{"std":1}',
      context: '{"std":1}',
      std: '1',
    });
    expect(shortenExtensions({ link: unread })).toEqual({ link: '{"std":1,"messages":false}' });
    expect(expandExtensions({ link: '{"std":1,"messages":false}' })).toEqual({ link: unread });
  });

  it.each(['max_streams', 'message_window', 'stream_window', 'max_transfer'])(
    'are stated in full if %s is unlimited: absent says so, and null would mean the standard value',
    (name) => {
      const { [name]: _unlimited, ...rest } = JSON.parse(LINK) as Record<string, number>;
      const text = JSON.stringify(rest);
      expect(shortenExtensions({ link: text })).toEqual({ link: text });
      expect(linkParameters(expandExtensions(shortenExtensions({ link: text })))).toEqual(
        linkParameters({ link: text }),
      );
    },
  );

  it.each([
    ['link', 'max_streams', LINK],
    ['link', 'message_window', LINK],
    ['link', 'stream_window', LINK],
    ['link', 'max_transfer', LINK],
    ['context', 'max_bytes', CONTEXT],
    ['context', 'max_messages', CONTEXT],
  ])('of %s have the standard value of %s if it is null', (extension, name, text) => {
    const stated = JSON.stringify({ std: 1, [name]: null });
    expect(expandExtensions({ [extension]: stated })).toEqual({ [extension]: text });
  });

  it.each(['{}', '{"std":2}', '{"std":true}', '"std"', '["std"]', '{"std":1', 'std', ''])(
    'stay as they are if they do not ask for standard values: %s',
    (text) => expect(expandExtensions({ link: text })).toEqual({ link: text }),
  );

  it('mean the same after both', () => {
    const count = fc.option(fc.constantFrom(1, 128, 16_384, 1_048_576, 1_073_741_824), { nil: undefined });
    const stated = fc.record({
      max_streams: count,
      message_window: count,
      stream_window: count,
      max_transfer: count,
      messages: fc.option(fc.boolean(), { nil: undefined }),
      novelty: fc.option(fc.string(), { nil: undefined }),
    });
    fc.assert(
      fc.property(stated, (fields) => {
        const text = JSON.stringify(fields);
        const short = shortenExtensions({ link: text })['link'] as string;
        expect(short.length).toBeLessThanOrEqual(text.length);
        const back = JSON.parse(expandExtensions({ link: short })['link'] as string);
        for (const [name, value] of Object.entries(fields))
          if (value !== undefined) expect(back[name]).toBe(value);
        for (const [name, value] of Object.entries(back)) expect(fields).toHaveProperty(name, value);
      }),
    );
  });
});

describe('standard values', () => {
  it('are what a server with default options states', () => {
    expect(STANDARD_VALUES).toMatchObject({
      sessionTimeoutMs: DEFAULT_TIMERS.idleTimeoutMs,
      windowMs: DEFAULT_TIMERS.resumeWindowMs,
      maxPayloadSize: DEFAULT_LIMITS.maxMessageSize,
    });
    const { limits } = STANDARD_VALUES;
    for (const [name, value] of Object.entries(limits)) expect(DEFAULT_LIMITS).toHaveProperty(name, value);
  });

  const accept = (change: Partial<AcceptPayload>): AcceptPayload => ({
    shape: 'flat',
    version: '1.0',
    algorithms: ['NONE'],
    encoding: 'CL100K_BASE',
    encodings: [],
    securityScanning: false,
    sessionTimeoutMs: 300_000,
    maxPayloadSize: 16_777_216,
    limits: { ...STANDARD_VALUES.limits },
    agentId: undefined,
    extensions: { std: '1' },
    resume: undefined,
    ...change,
  });
  const isAsMeant = (payload: AcceptPayload) => {
    const fields = acceptFields(payload);
    const stated = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
    expect(parseAccept(stated)).toEqual(payload);
    return Object.keys(stated);
  };

  it('are left out of an ACCEPT that agrees on them, and others are stated', () => {
    expect(isAsMeant(accept({}))).toEqual(['algorithms', 'extensions']);
    expect(isAsMeant(accept({ algorithms: undefined }))).toEqual(['extensions']);
    expect(parseAccept({ algorithms: ['NOVEL'], extensions: { std: '1' } }).algorithms).toEqual([]);
    expect(isAsMeant(accept({ encoding: null }))).toContain('encoding');
    expect(isAsMeant(accept({ encoding: 'O200K_BASE' }))).toContain('encoding');
    expect(isAsMeant(accept({ sessionTimeoutMs: 0 }))).toContain('session_timeout_ms');
    expect(isAsMeant(accept({ maxPayloadSize: 0 }))).toContain('max_payload_size');
    expect(isAsMeant(accept({ limits: {} }))).toContain('limits');
    expect(isAsMeant(accept({ limits: { ...STANDARD_VALUES.limits, maxStreams: 127 } }))).toContain('limits');
    const resume = {
      token: 't',
      windowMs: 120_000,
      recovered: false,
      received: 0,
      reason: undefined,
      rebuilt: undefined,
    };
    isAsMeant(accept({ resume }));
    isAsMeant(accept({ resume: { ...resume, windowMs: 0, recovered: true, received: 3 } }));
  });

  it('are stated to a client that does not know them', () => {
    const fields = acceptFields(accept({ extensions: {} }));
    expect(fields).toMatchObject({
      version: '1.0',
      encoding: 'CL100K_BASE',
      session_timeout_ms: 300_000,
      max_payload_size: 16_777_216,
      limits: STANDARD_VALUES.limits,
    });
  });

  it.each([
    ['a client that does not list std reads the parameters in full', {}, LINK],
    ['a client that lists std reads what is not standard', { std: '1' }, '{"std":1}'],
  ])('%s', (_title, agreed, link) => {
    const fields = acceptFields(accept({ extensions: { link: LINK, ...agreed } }));
    expect(fields['extensions']).toEqual({ link, ...agreed });
  });

  it('stand for the largest body that a client takes, and never for its version', () => {
    const hello = {
      ...parseHello({ version: '1.0', algorithms: ['NONE'], extensions: { std: '1' } }),
    } satisfies HelloPayload;
    expect(hello.maxPayloadSize).toBe(16_777_216);
    expect(helloFields(hello)).toMatchObject({ version: '1.0', max_payload_size: undefined });
    expect(helloFields({ ...hello, maxPayloadSize: 0 })).toMatchObject({ max_payload_size: 0 });
    expect(parseHello({ version: '1.0', algorithms: ['NONE'] }).maxPayloadSize).toBe(0);
    expect(parseHello({ extensions: { std: '1' } }).version).toBe('');
  });

  it('are those six limits, and no others', () => {
    expect(areStandard({ ...STANDARD_VALUES.limits })).toBe(true);
    expect(areStandard({ ...STANDARD_VALUES.limits, more: 1 })).toBe(false);
  });
});

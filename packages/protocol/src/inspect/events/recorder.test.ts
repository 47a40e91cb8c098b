import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toHex } from '../../base/testing/bytes.js';
import { encodeUtf8 } from '../../base/text.js';
import { BodyCodec } from '../../codec/body.js';
import { encodeControl, encodeControlJson } from '../../control/envelope.js';
import type { AcceptMessage, HelloMessage, ResumeAnswer, ResumeOffer } from '../../control/messages.js';
import { encodeBodyFrame, encodeSignalFrame, LinkKind } from '../../link/frame.js';
import type { FrameEvent, InspectionEvent } from './event.js';
import { MAX_LINE, parseEvent } from './parse.js';
import { createRecorder } from './recorder.js';

const TOKEN = 'credential-of-the-user';
const TICKET = 'ticket-of-the-session';
const shared = { shape: 'flat', version: '1.0', securityScanning: false, maxPayloadSize: 0 } as const;

function hello(resume?: ResumeOffer): HelloMessage {
  const payload: HelloMessage['payload'] = {
    ...shared,
    algorithms: ['NONE'],
    encodings: [],
    preferredEncoding: null,
    supportsStreaming: true,
    extensions: { link: '{}', resume: '{}' },
    auth: { token: TOKEN },
    resume,
  };
  return { type: 'HELLO', sessionId: null, timestamp: 1, payload };
}

function accept(resume: Partial<ResumeAnswer> = {}): AcceptMessage {
  const payload: AcceptMessage['payload'] = {
    ...shared,
    algorithms: ['NONE'],
    encoding: null,
    encodings: [],
    sessionTimeoutMs: 1000,
    limits: {},
    extensions: { link: '{}', resume: '{}' },
    resume: { token: TICKET, windowMs: 120_000, recovered: false, received: 0, ...resume },
  };
  return { type: 'ACCEPT', sessionId: 'sess_1', timestamp: 1, payload };
}

function message(text: string): Uint8Array {
  const bytes = encodeUtf8(text);
  const body = {
    codec: BodyCodec.PLAIN,
    bytes,
    originalLength: bytes.length,
    secret: false,
    metadata: undefined,
  };
  return encodeBodyFrame({ ...body, kind: LinkKind.REQUEST, streamId: 1 }, 0, bytes.length);
}

const frames = (events: readonly InspectionEvent[]) => events.filter((event) => event.event === 'frame');
const others = (events: readonly InspectionEvent[]) =>
  events.filter((event) => event.event !== 'frame').map(({ v: _v, time: _time, ...rest }) => rest);
const asLine = (event: InspectionEvent) => JSON.stringify(event);

/** A session that loses its connection once. */
function record(): InspectionEvent[] {
  const recorder = createRecorder();
  return [
    ...recorder.opening(1_000, 1, 'ws://user:secret-of-the-url@host/session?ticket=in-the-query'),
    ...recorder.open(1_001, 1),
    ...recorder.frame(1_002, 1, 'sent', encodeControl(hello())),
    ...recorder.frame(1_003, 1, 'received', encodeControl(accept())),
    ...recorder.frame(1_004, 1, 'sent', message('first')),
    ...recorder.frame(1_005, 1, 'sent', message('second')),
    ...recorder.closed(1_006, 1, 1006, ''),
    ...recorder.opening(1_100, 2, 'ws://host/session'),
    ...recorder.closed(1_101, 2, 1006, ''),
    ...recorder.opening(1_500, 3, 'ws://host/session'),
    ...recorder.open(1_501, 3),
    ...recorder.frame(
      1_502,
      3,
      'sent',
      encodeControl(hello({ sessionId: 'sess_1', token: TICKET, received: 0, attempt: 1 })),
    ),
    ...recorder.frame(1_506, 3, 'received', encodeControl(accept({ recovered: true, received: 1 }))),
    ...recorder.frame(1_507, 3, 'sent', message('second')),
    ...recorder.frame(1_508, 3, 'received', encodeSignalFrame(LinkKind.END, 1)),
  ];
}

describe('a recorder', () => {
  it('tells connections, states, and what a resumed session writes again', () => {
    const events = record();
    expect(others(events)).toEqual([
      {
        event: 'connection',
        connection: 1,
        what: 'opening',
        url: 'ws://[redacted]@host/session?ticket=[redacted]',
      },
      { event: 'connection', connection: 1, what: 'open' },
      { event: 'state', state: 'established', session: 'sess_1' },
      { event: 'connection', connection: 1, what: 'closed', code: 1006, reason: undefined },
      { event: 'state', state: 'suspended', session: 'sess_1', windowMs: 120_000 },
      { event: 'connection', connection: 2, what: 'opening', url: 'ws://host/session' },
      { event: 'connection', connection: 2, what: 'failed', code: 1006 },
      { event: 'connection', connection: 3, what: 'opening', url: 'ws://host/session' },
      { event: 'connection', connection: 3, what: 'open' },
      {
        event: 'replay',
        session: 'sess_1',
        gapMs: 500,
        received: 0,
        acknowledged: 1,
        again: 1,
        isRebuilt: false,
      },
      { event: 'state', state: 'established', session: 'sess_1', isResumed: true },
    ]);
    expect(frames(events).map(({ label, isReplayed }) => [label, isReplayed])).toEqual([
      ['HELLO', undefined],
      ['ACCEPT', undefined],
      ['request', undefined],
      ['request', undefined],
      ['HELLO', undefined],
      ['ACCEPT', undefined],
      ['request', true],
      ['end', undefined],
    ]);
    expect(events[0]).toMatchObject({ v: 1, time: '1970-01-01T00:00:01.000Z' });
  });

  it('tells a session that ends from one that is suspended', () => {
    const close = encodeControl({
      type: 'CLOSE',
      sessionId: 'sess_1',
      timestamp: 1,
      payload: { reason: 'CLIENT_SHUTDOWN', message: '' },
    });
    const recorder = createRecorder();
    recorder.frame(1, 1, 'sent', encodeControl(hello()));
    recorder.frame(2, 1, 'received', encodeControl(accept()));
    recorder.frame(3, 1, 'sent', close);
    expect(others(recorder.closed(4, 1, 1000, ''))).toContainEqual({
      event: 'state',
      state: 'closed',
      session: 'sess_1',
    });
    // Without the extension, a session has the life of its connection.
    const without = createRecorder();
    without.frame(1, 1, 'sent', encodeControl(hello()));
    without.frame(2, 1, 'received', encodeControl(accept({ windowMs: 0 })));
    expect(others(without.closed(3, 1, 1006, ''))).toContainEqual({
      event: 'state',
      state: 'closed',
      session: 'sess_1',
    });
  });

  it('does not take the end of a connection that the session has left for a loss', () => {
    const recorder = createRecorder();
    recorder.frame(1, 1, 'sent', encodeControl(hello()));
    recorder.frame(2, 1, 'received', encodeControl(accept()));
    recorder.frame(
      3,
      2,
      'sent',
      encodeControl(hello({ sessionId: 's', token: 't', received: 0, attempt: 1 })),
    );
    recorder.frame(4, 2, 'received', encodeControl(accept({ recovered: true })));
    expect(others(recorder.closed(5, 1, 1000, ''))).toHaveLength(1);
    expect(others(recorder.closed(6, 2, 1006, ''))).toHaveLength(2);
  });

  it('does not take a move for a loss, although the old connection ends before the new one is answered', () => {
    const move = () => {
      const recorder = createRecorder();
      recorder.open(1, 1);
      recorder.frame(1, 1, 'sent', encodeControl(hello()));
      recorder.frame(2, 1, 'received', encodeControl(accept()));
      recorder.open(3, 2);
      const resume = hello({ sessionId: 's', token: 't', received: 0, attempt: 1 });
      recorder.frame(3, 2, 'sent', encodeControl(resume));
      expect(others(recorder.closed(4, 1, 4409, ''))).toHaveLength(1);
      return recorder;
    };
    const moved = others(move().frame(5, 2, 'received', encodeControl(accept({ recovered: true }))));
    expect(moved).toMatchObject([{ event: 'replay', gapMs: undefined }, { state: 'established' }]);
    expect(others(move().closed(5, 2, 1006, ''))).toContainEqual({
      event: 'state',
      state: 'suspended',
      session: 'sess_1',
      windowMs: 120_000,
    });
  });

  it('has codec, tokens, sizes and bytes of a frame as members', () => {
    const recorder = createRecorder();
    const tokens = Uint8Array.of(0x10, 0, 1, 0xb2, 0x4d);
    const [event] = recorder.frame(1, 1, 'sent', tokens) as [FrameEvent];
    expect(event).toMatchObject({
      connection: 1,
      direction: 'sent',
      kind: 'link',
      label: 'message',
      codec: 'TOKEN_NATIVE',
      tokens: 1,
      sizes: { frame: 5, body: 2 },
      hex: '100001b24d',
    });
  });

  it('shows the bytes of long frames up to a bound', () => {
    const hexOfLength = (length: number) => {
      const [event] = createRecorder({ hexBytes: 16 }).frame(1, 1, 'sent', message('x'.repeat(length)));
      return (event as FrameEvent).hex?.length;
    };
    expect([hexOfLength(13), hexOfLength(14)]).toEqual([32, 32]);
    expect(hexOfLength(12)).toBe(30);
    const [none] = createRecorder({ hexBytes: 0 }).frame(1, 1, 'sent', message('x'));
    expect((none as FrameEvent).hex).toBeUndefined();
  });

  it('records a selection once, with the frame that it led to', () => {
    const body = encodeUtf8('first');
    const selection = {
      algorithm: 'NONE',
      body,
      reason: { rule: 'only', tried: [{ algorithm: 'NONE', bytes: 5, estimated: false }] },
    };
    const recorder = createRecorder({ selection: () => selection });
    const of = (text: string) => (recorder.frame(1, 1, 'sent', message(text))[0] as FrameEvent).selection;
    expect(of('another')).toBeUndefined();
    expect(of('first')).toEqual({ algorithm: 'NONE', reason: selection.reason });
    expect(of('first')).toBeUndefined();
  });
});

describe('credentials in a record', () => {
  const secrets = [TOKEN, TICKET, 'secret-of-the-url', 'in-the-query'];
  const leaks = (text: string) =>
    secrets.filter((secret) => text.includes(secret) || text.includes(toHex(encodeUtf8(secret))));

  it('are masked in fields, bytes and addresses', () => {
    const text = record().map(asLine).join('\n');
    expect(leaks(text)).toEqual([]);
    const [sent] = frames(record()) as [FrameEvent];
    const bytes = encodeControl(hello());
    expect(sent.hex).toHaveLength(bytes.length * 2);
    expect(sent.hex).toContain('xx'.repeat(TOKEN.length));
    // All but the credential is there.
    expect(sent.hex?.startsWith(toHex(bytes.subarray(0, 8)))).toBe(true);
  });

  it('are masked in JSON envelopes, also in damaged ones', () => {
    const whole = encodeControlJson(hello());
    fc.assert(
      fc.property(fc.nat({ max: whole.length }), (cut) => {
        const events = createRecorder().frame(1, 1, 'sent', whole.slice(0, cut));
        // Half a credential is one too.
        const text = asLine(events[0] as FrameEvent);
        expect(leaks(text)).toEqual([]);
        expect(text).not.toContain(toHex(encodeUtf8(TOKEN.slice(0, 12))));
      }),
    );
  });

  it('are masked in damaged envelopes of MessagePack', () => {
    const whole = encodeControl(hello());
    fc.assert(
      fc.property(fc.nat({ max: whole.length }), (cut) => {
        const [event] = createRecorder().frame(1, 1, 'sent', whole.subarray(0, cut)) as [FrameEvent];
        expect(asLine(event)).not.toContain(toHex(encodeUtf8(TOKEN.slice(0, 12))));
      }),
    );
  });

  it('hide the bytes of a frame whose fields are not complete', () => {
    const extensions = Object.fromEntries(Array.from({ length: 2_100 }, (_, i) => [`x${i}`, '']));
    const members = { type: 'HELLO', session_id: null, timestamp: 1 };
    const text = JSON.stringify({ ...members, payload: { extensions, auth: { token: TOKEN } } });
    const [event] = createRecorder().frame(1, 1, 'sent', text) as [FrameEvent];
    expect(event.isCut).toBe(true);
    expect(event.hex).toBeUndefined();
    expect(leaks(asLine(event))).toEqual([]);
  });
});

describe('a capture', () => {
  it('is read as it was written', () => {
    for (const event of record()) expect(parseEvent(asLine(event))).toEqual(event);
  });

  it('may have lines of other events, which are skipped', () => {
    const line = JSON.stringify({ v: 1, time: '2026-01-01T00:00:00Z', event: 'reply', text: 'x' });
    expect(parseEvent(line)).toBeUndefined();
  });

  it('of another version is refused', () => {
    const [event] = record();
    expect(() => parseEvent(JSON.stringify({ ...event, v: 2 }))).toThrow(/version 2/);
    expect(() => parseEvent('{"event":"frame"}')).toThrow(/version undefined/);
  });

  it('is refused where it is damaged, and never throws anything but a ProtocolError', () => {
    const lines = record().map((event) => JSON.parse(asLine(event)) as Record<string, unknown>);
    fc.assert(
      fc.property(fc.constantFrom(...lines), fc.nat(), fc.jsonValue(), (line, at, value) => {
        const name = Object.keys(line)[at % Object.keys(line).length] as string;
        try {
          parseEvent(JSON.stringify({ ...line, [name]: value }));
        } catch (error) {
          expect((error as { code?: string }).code).toMatch(/^(bad_message|unsupported)$/);
        }
      }),
    );
    for (const line of ['', 'x', '[]', 'null', '{}', '{"event":1}'])
      expect(() => parseEvent(line)).toThrow(expect.objectContaining({ name: 'ProtocolError' }));
  });

  it('has bounds for lines and fields', () => {
    const [, , event] = record() as [unknown, unknown, FrameEvent];
    const field = { name: 'x', offset: 0, length: 0 };
    const withFields = (count: number) =>
      JSON.stringify({ ...event, fields: Array.from({ length: count }, () => field) });
    expect(parseEvent(withFields(4096))).toBeDefined();
    expect(() => parseEvent(withFields(4097))).toThrow(/at most 4096 fields/);
    const padded = (length: number) => asLine(event).padEnd(length);
    expect(parseEvent(padded(MAX_LINE))).toBeDefined();
    expect(() => parseEvent(padded(MAX_LINE + 1))).toThrow(/at most/);
  });
});

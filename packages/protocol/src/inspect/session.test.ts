import { beforeAll, describe, expect, it } from 'vitest';
import { platform } from '#platform';
import { encodeUtf8 } from '../base/text.js';
import { BodyCodec } from '../codec/body.js';
import { encodeContextBody } from '../codec/context/body.js';
import { encodeContextParameters } from '../codec/context/parameters.js';
import { NEWEST, NO_BASE } from '../codec/context/state.js';
import { loadEncoding } from '../codec/vocabulary/load.js';
import { encodeControl } from '../control/envelope.js';
import type { AcceptMessage, HelloMessage, ResumeAnswer, ResumeOffer } from '../control/messages.js';
import { type BodyKind, encodeBodyFrame, encodeSignalFrame, LinkKind } from '../link/frame.js';
import { createSessionExplainer, type SessionExplainer } from './session.js';

beforeAll(async () => {
  await loadEncoding('CL100K_BASE');
});

const shared = { shape: 'flat', version: '1.0', securityScanning: false, maxPayloadSize: 0 } as const;

const CONTEXT = encodeContextParameters({ maxBytes: 1_000_000, maxMessages: 8 });

function hello(resume?: ResumeOffer): Uint8Array {
  const payload: HelloMessage['payload'] = {
    ...shared,
    algorithms: ['TOKEN_NATIVE', 'NONE'],
    encodings: ['CL100K_BASE'],
    preferredEncoding: 'CL100K_BASE',
    supportsStreaming: true,
    extensions: { link: '{}', resume: '{}', context: CONTEXT },
    resume,
  };
  return encodeControl({ type: 'HELLO', sessionId: null, timestamp: 1, payload });
}

function accept(resume?: ResumeAnswer): Uint8Array {
  const payload: AcceptMessage['payload'] = {
    ...shared,
    algorithms: ['TOKEN_NATIVE', 'NONE'],
    encoding: 'CL100K_BASE',
    encodings: ['CL100K_BASE'],
    sessionTimeoutMs: 1000,
    limits: {},
    extensions: { link: '{}', resume: '{}', context: CONTEXT },
    resume,
  };
  return encodeControl({ type: 'ACCEPT', sessionId: 'sess_1', timestamp: 1, payload });
}

/** A body in fragments of 10 bytes. */
function pieces(kind: BodyKind, streamId: number, bytes: Uint8Array, codec: BodyCodec = BodyCodec.PLAIN) {
  const body = {
    kind,
    streamId,
    codec,
    bytes,
    originalLength: bytes.length,
    secret: false,
    metadata: undefined,
  };
  return Array.from({ length: Math.ceil(bytes.length / 10) }, (_, i) =>
    encodeBodyFrame(body, i * 10, Math.min(bytes.length, i * 10 + 10)),
  );
}

function inContext(middle: Uint8Array, of: { base: number; prefix: number; suffix: number }): Uint8Array {
  const whole = of.base === NO_BASE ? middle : encodeUtf8('a first and a second message');
  const checksum = platform.crc32(whole);
  return encodeContextBody({ ...of, middle, compressed: false, replaces: false, checksum });
}

const TEXT = encodeUtf8('a body of thirty-five bytes, in all');
const summaries = (explainer: SessionExplainer, frames: readonly Uint8Array[], direction = 'sent' as const) =>
  frames.map((frame) => explainer.explain(direction, frame).summary);

describe('explaining a session', () => {
  it('begins to count again, without context, when the link is rebuilt', () => {
    const explainer = createSessionExplainer();
    const first = { token: 't', windowMs: 1, recovered: false, received: 0 };
    explainer.explain('sent', hello());
    explainer.explain('received', accept(first));
    const base = inContext(encodeUtf8('a first'), { base: NO_BASE, prefix: 0, suffix: 0 });
    const next = inContext(encodeUtf8(' and a second message'), { base: NEWEST, prefix: 7, suffix: 0 });
    const [whole, half] = [pieces(LinkKind.MESSAGE, 0, TEXT), pieces(LinkKind.REQUEST, 1, TEXT).slice(0, 2)];
    const [of, against] = [base, next].map((bytes) => pieces(LinkKind.REQUEST, 3, bytes, BodyCodec.CONTEXT));
    const explained = summaries(explainer, whole);
    summaries(explainer, [...half, ...(of ?? [])]);
    explainer.explain(
      'sent',
      hello({ sessionId: 'sess_1', token: 't', received: 0, attempt: 1, rebuild: true }),
    );
    explainer.explain(
      'received',
      accept({ ...first, recovered: true, rebuilt: { stream: 3, cancelled: [1, 3] } }),
    );
    // The numbers of these frames were those of others on the former link.
    summaries(explainer, pieces(LinkKind.MESSAGE, 0, encodeUtf8('short')));
    expect(summaries(explainer, whole)).toEqual(explained);
    // Its base belongs to the former link.
    expect(summaries(explainer, against ?? []).join()).not.toContain('a second message');
  });

  it('uses the negotiated vocabulary', () => {
    const explainer = createSessionExplainer({ preview: 50 });
    const message = Uint8Array.of(0x10, 0, 1, 0xb2, 0x4d);
    expect(explainer.explain('sent', message).preview).toBeUndefined();
    explainer.explain('sent', hello());
    explainer.explain('received', accept());
    expect(explainer.explain('sent', message).preview).toBe('Hello');
  });

  it('follows fragmented bodies, separately for each direction and stream', () => {
    const explainer = createSessionExplainer();
    const [first, second, third, fourth] = pieces(LinkKind.REQUEST, 1, TEXT) as [
      Uint8Array,
      Uint8Array,
      Uint8Array,
      Uint8Array,
    ];
    const other = pieces(LinkKind.REQUEST, 3, TEXT);
    const interleaved = [first, other[0] as Uint8Array, second, other[1] as Uint8Array, third, fourth];
    expect(summaries(explainer, interleaved)).toEqual([
      'PLAIN: 10 bytes, 10 of 35 so far',
      'PLAIN: 10 bytes, 10 of 35 so far',
      'PLAIN: 10 bytes, 20 of 35 so far',
      'PLAIN: 10 bytes, 20 of 35 so far',
      'PLAIN: 10 bytes, 30 of 35 so far',
      'PLAIN: 5 bytes, 35 of 35 so far',
    ]);
    // Stream 1 has no unfinished body any more, and the other direction never had one.
    expect(explainer.explain('sent', Uint8Array.of(0x10, 0, 0, 0x61)).summary).toBe('PLAIN: 1 byte');
    expect(explainer.explain('received', Uint8Array.of(0x13, 1, 0, 0x61)).summary).toBe('PLAIN: 1 byte');
  });

  it('forgets an unfinished body when its stream ends', () => {
    for (const kind of [LinkKind.END, LinkKind.CANCEL]) {
      const explainer = createSessionExplainer();
      explainer.explain('sent', pieces(LinkKind.CHUNK, 1, TEXT)[0] as Uint8Array);
      explainer.explain('sent', encodeSignalFrame(kind, 1));
      expect(explainer.explain('sent', Uint8Array.of(0x13, 1, 0, 0x61)).summary).toBe('PLAIN: 1 byte');
    }
  });

  it('keeps an unfinished body when an alias has the number of its stream', () => {
    const explainer = createSessionExplainer();
    const [first, second] = pieces(LinkKind.REQUEST, 1, TEXT) as [Uint8Array, Uint8Array];
    explainer.explain('sent', first);
    explainer.explain('sent', encodeSignalFrame(LinkKind.ALIAS, 1, encodeUtf8('worker')));
    expect(explainer.explain('sent', second).summary).toBe('PLAIN: 10 bytes, 20 of 35 so far');
  });

  it.each([
    ['confirmed frames', 4],
    ['unconfirmed frames only', 0],
  ])('recognises replayed frames after a lost connection with %s', (_what, acknowledged) => {
    const explainer = createSessionExplainer();
    explainer.explain('sent', hello());
    explainer.explain('received', accept({ token: 't', windowMs: 1, recovered: false, received: 0 }));
    const frames = [
      ...pieces(LinkKind.REQUEST, 1, TEXT),
      encodeSignalFrame(LinkKind.CANCEL, 1),
      ...pieces(LinkKind.REQUEST, 3, TEXT).slice(0, 2),
    ];
    const before = summaries(explainer, frames);
    if (acknowledged > 0) explainer.explain('received', encodeSignalFrame(LinkKind.ACK, acknowledged));

    explainer.explain('sent', hello({ sessionId: 'sess_1', token: 't', received: 0, attempt: 1 }));
    explainer.explain(
      'received',
      accept({ token: 'u', windowMs: 1, recovered: true, received: acknowledged }),
    );
    expect(summaries(explainer, frames.slice(acknowledged))).toEqual(before.slice(acknowledged));
    // New frames then continue where the replayed ones end.
    expect(summaries(explainer, pieces(LinkKind.REQUEST, 3, TEXT).slice(2))).toEqual([
      'PLAIN: 10 bytes, 30 of 35 so far',
      'PLAIN: 5 bytes, 35 of 35 so far',
    ]);
  });

  it('shows replayed bodies in context again, until they are confirmed', () => {
    const explainer = createSessionExplainer({ preview: 100 });
    explainer.explain('sent', hello());
    explainer.explain('received', accept({ token: 't', windowMs: 1, recovered: false, received: 0 }));
    const first = inContext(encodeUtf8('a first message'), { base: NO_BASE, prefix: 0, suffix: 0 });
    const second = inContext(encodeUtf8(' and a second'), { base: NEWEST, prefix: 7, suffix: 8 });
    const frames = [...pieces(LinkKind.MESSAGE, 0, first, BodyCodec.CONTEXT)];
    frames.push(...pieces(LinkKind.MESSAGE, 0, second, BodyCodec.CONTEXT));
    const previews = () => frames.map((frame) => explainer.explain('sent', frame).preview);
    const shown = previews();
    expect(shown.filter((preview) => preview !== undefined)).toEqual([
      'a first message',
      'a first and a second message',
    ]);

    const again = (attempt: number) => {
      explainer.explain('sent', hello({ sessionId: 'sess_1', token: 't', received: 0, attempt }));
      explainer.explain('received', accept({ token: 't', windowMs: 1, recovered: true, received: 0 }));
      return previews();
    };
    expect(again(1)).toEqual(shown);
    // Confirmed messages are dropped, even if a faulty sender replays them.
    explainer.explain('received', encodeSignalFrame(LinkKind.ACK, frames.length));
    expect(again(2)).toEqual(frames.map(() => undefined));
  });

  it('starts counting from zero in a session that replaces a lost one', () => {
    const explainer = createSessionExplainer();
    explainer.explain('received', accept({ token: 't', windowMs: 1, recovered: false, received: 0 }));
    summaries(explainer, pieces(LinkKind.REQUEST, 1, TEXT).slice(0, 3));
    explainer.explain('received', accept({ token: 'u', windowMs: 1, recovered: false, received: 0 }));
    expect(summaries(explainer, pieces(LinkKind.REQUEST, 1, TEXT).slice(0, 1))).toEqual([
      'PLAIN: 10 bytes, 10 of 35 so far',
    ]);
  });

  it('continues after damaged frames', () => {
    const explainer = createSessionExplainer();
    for (const frame of ['', '11', '110110ff', '1101ff', 'c1', '80', '1801ff'].map((hex) =>
      Buffer.from(hex, 'hex'),
    )) {
      expect(explainer.explain('received', new Uint8Array(frame)).error).toBeDefined();
    }
    expect(explainer.explain('received', Uint8Array.of(0x14, 1)).error).toBeUndefined();
  });
});

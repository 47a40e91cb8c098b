import { expect, it } from 'vitest';
import { BodyCodec, BodyCounts, plainBody } from '../codec/body.js';
import { type CountedCore, StatsRecorder } from './stats.js';

/** Values that a snapshot copies from the core. */
const NOW = {
  queuedBytes: 1,
  blockedOnCredit: true,
  blockedOnRate: false,
  peerBlockedOnRate: true,
  openStreams: 2,
  roundTripMs: 3,
  lastSelection: undefined,
  context: undefined,
};
const coreWith = (sentBodies: BodyCounts | undefined): CountedCore => ({
  isBlockedOnCredit: NOW.blockedOnCredit,
  isPaced: NOW.blockedOnRate,
  isPeerPaced: (now) => now === 7 && NOW.peerBlockedOnRate,
  queuedBytes: NOW.queuedBytes,
  roundTripMs: NOW.roundTripMs,
  channel: { sentBodies, openStreams: NOW.openStreams, contextUse: NOW.context },
});
const NOTHING = { messages: 0, wireBytes: 0, contentBytes: 0, byAlgorithm: {} };
const received = (codec: BodyCodec, size: number, originalLength: number | undefined) => ({
  ...plainBody(new Uint8Array(size)),
  codec,
  originalLength,
  charge: 0,
});
/** Of a session whose vocabulary is loaded. */
const CODER = { decodedLength: () => 17 };
/** Each body as its codec, its coded bytes and the bytes of its content. */
const countsOf = (...bodies: [BodyCodec, number, number][]) => {
  const counts = new BodyCounts();
  for (const body of bodies) counts.add(...body);
  return counts;
};

it('is zero at first, except what the core reports', () => {
  const snapshot = new StatsRecorder().snapshot(coreWith(undefined), NOW.lastSelection, 7);
  expect(snapshot).toEqual({ sent: NOTHING, received: NOTHING, ...NOW });
});

it('counts sent and received bodies separately, by algorithm', () => {
  const stats = new StatsRecorder();
  stats.sent(100);
  stats.sent(20);
  stats.received(7);
  stats.receivedBody(received(BodyCodec.PLAIN, 0, undefined), CODER);
  const written = countsOf([BodyCodec.BROTLI, 10, 50], [BodyCodec.BROTLI, 5, 20], [BodyCodec.AVP, 8, 8]);
  const snapshot = stats.snapshot(coreWith(written), undefined, 7);
  expect(snapshot.sent).toEqual({
    messages: 3,
    wireBytes: 120,
    contentBytes: 78,
    byAlgorithm: {
      BROTLI: { messages: 2, codedBytes: 15, contentBytes: 70 },
      AVP: { messages: 1, codedBytes: 8, contentBytes: 8 },
    },
  });
  expect(snapshot.received).toEqual({
    messages: 1,
    wireBytes: 7,
    contentBytes: 0,
    byAlgorithm: { NONE: { messages: 1, codedBytes: 0, contentBytes: 0 } },
  });
});

it('counts a received body with its stated length, that of its text, or its coded length', () => {
  const stats = new StatsRecorder();
  stats.receivedBody(received(BodyCodec.M2M, 10, 30), CODER);
  stats.receivedBody(received(BodyCodec.M2M, 10, 0), CODER);
  stats.receivedBody(received(BodyCodec.BROTLI, 6, undefined), CODER);
  stats.receivedBody(received(BodyCodec.TOKEN_NATIVE, 4, undefined), CODER);
  expect(stats.snapshot(coreWith(undefined), undefined, 7).received.byAlgorithm).toEqual({
    M2M: { messages: 2, codedBytes: 20, contentBytes: 30 },
    BROTLI: { messages: 1, codedBytes: 6, contentBytes: 6 },
    TOKEN_NATIVE: { messages: 1, codedBytes: 4, contentBytes: 17 },
  });
});

it('counts the token IDs of bodies that consist of them', () => {
  const stats = new StatsRecorder();
  const body = (codec: BodyCodec) => ({
    ...received(codec, 0, undefined),
    // 5, 300 and 100000.
    bytes: Uint8Array.of(0x05, 0xac, 0x02, 0xa0, 0x8d, 0x06),
  });
  stats.receivedBody(body(BodyCodec.TOKEN_NATIVE), CODER);
  stats.receivedBody(body(BodyCodec.PLAIN), CODER);
  expect(stats.receivedBodies?.tokens).toBe(3);
});

it('returns a snapshot that does not change later', () => {
  const stats = new StatsRecorder();
  const written = countsOf([BodyCodec.PLAIN, 1, 1]);
  const before = stats.snapshot(coreWith(written), undefined, 7);
  written.add(BodyCodec.PLAIN, 1, 1);
  stats.sent(9);
  expect(before.sent).toMatchObject({ messages: 1, wireBytes: 0, byAlgorithm: { NONE: { messages: 1 } } });
});

import { expect, it } from 'vitest';
import { DEFAULT_LIMITS } from '../base/limits.js';
import { decodeUtf8 } from '../base/text.js';
import { createBodyCoder } from '../codec/auto/coder.js';
import { BodyCodec, BodyCounts, countText, plainBody, type ReceivedBody } from '../codec/body.js';
import { loadEncoding } from '../codec/vocabulary/load.js';
import { ReceivedMessage } from './messages/message.js';
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
  stats.receivedBody(received(BodyCodec.PLAIN, 0, undefined));
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

it('counts a received body with its stated length, that of its text once it is decoded, or its coded length', () => {
  const stats = new StatsRecorder();
  const tokens: ReceivedBody = received(BodyCodec.TOKEN_NATIVE, 4, undefined);
  stats.receivedBody(received(BodyCodec.M2M, 10, 30));
  stats.receivedBody(received(BodyCodec.M2M, 10, 0));
  stats.receivedBody(received(BodyCodec.BROTLI, 6, undefined));
  stats.receivedBody(tokens);
  const byAlgorithm = () => stats.snapshot(coreWith(undefined), undefined, 7).received.byAlgorithm;
  const others = {
    M2M: { messages: 2, codedBytes: 20, contentBytes: 30 },
    BROTLI: { messages: 1, codedBytes: 6, contentBytes: 6 },
  };
  expect(byAlgorithm()).toEqual({
    ...others,
    TOKEN_NATIVE: { messages: 1, codedBytes: 4, contentBytes: 4 },
  });
  countText(tokens, 17);
  expect(byAlgorithm()).toEqual({
    ...others,
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
  stats.receivedBody(body(BodyCodec.TOKEN_NATIVE));
  stats.receivedBody(body(BodyCodec.PLAIN));
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

it('counts the text of token IDs once, whether it is read as a whole or in parts', async () => {
  const encoding = await loadEncoding('CL100K_BASE');
  const coder = createBodyCoder({
    algorithms: ['TOKEN_NATIVE'],
    encoding,
    limits: DEFAULT_LIMITS,
    security: undefined,
    yield: () => Promise.resolve(),
  });
  const { bytes } = coder.encodeTokens([15339, 1917], {});
  const stats = new StatsRecorder();
  const arrive = (): ReceivedBody => {
    const body: ReceivedBody = { ...plainBody(bytes), codec: BodyCodec.TOKEN_NATIVE, charge: 0 };
    stats.receivedBody(body);
    return body;
  };
  const contentBytes = () => stats.snapshot(coreWith(undefined), undefined, 7).received.contentBytes;
  const message = new ReceivedMessage(arrive(), coder);
  const text = 'hello world';
  expect([[...(message.tokens ?? [])], contentBytes()]).toEqual([[15339, 1917], bytes.length]);
  expect([message.text, decodeUtf8(message.bytes), message.text, contentBytes()]).toEqual([
    ...[text, text, text],
    text.length,
  ]);
  const parts = coder.createPartText();
  const part = new ReceivedMessage(arrive(), coder, parts);
  expect([part.text, decodeUtf8(part.bytes), contentBytes()]).toEqual([text, text, 2 * text.length]);
});

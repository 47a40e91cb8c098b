import { expect, it } from 'vitest';
import { LinkCodec } from '../link/frame.js';
import { plainBody } from '../link/link.js';
import { StatsRecorder } from './stats.js';

const NOW = {
  queuedBytes: 1,
  blockedOnCredit: true,
  blockedOnRate: false,
  openStreams: 2,
  roundTripMs: 3,
  lastSelection: undefined,
  context: undefined,
};
const NOTHING = { messages: 0, wireBytes: 0, contentBytes: 0, byAlgorithm: {} };
const coded = (codec: LinkCodec, size: number, originalLength: number | undefined) => ({
  ...plainBody(new Uint8Array(size)),
  codec,
  originalLength: originalLength as number,
  charge: 0,
});

it('nothing has happened at first', () => {
  expect(new StatsRecorder().snapshot(NOW)).toEqual({ sent: NOTHING, received: NOTHING, ...NOW });
});

it('what is sent and what is received are told apart, by algorithm', () => {
  const stats = new StatsRecorder();
  stats.sent(100);
  stats.sent(20);
  stats.received(7);
  stats.sentBody(coded(LinkCodec.BROTLI, 10, 50));
  stats.sentBody(coded(LinkCodec.BROTLI, 5, 20));
  stats.sentBody(coded(LinkCodec.AVP, 8, 8));
  stats.receivedBody(coded(LinkCodec.PLAIN, 0, undefined));
  const { sent, received } = stats.snapshot(NOW);
  expect(sent).toEqual({
    messages: 3,
    wireBytes: 120,
    contentBytes: 78,
    byAlgorithm: {
      BROTLI: { messages: 2, codedBytes: 15, contentBytes: 70 },
      AVP: { messages: 1, codedBytes: 8, contentBytes: 8 },
    },
  });
  expect(received).toEqual({
    messages: 1,
    wireBytes: 7,
    contentBytes: 0,
    byAlgorithm: { NONE: { messages: 1, codedBytes: 0, contentBytes: 0 } },
  });
});

it('a received body counts with what it states, else with what it is', () => {
  const stats = new StatsRecorder();
  stats.receivedBody(coded(LinkCodec.M2M, 10, 30));
  stats.receivedBody(coded(LinkCodec.M2M, 10, 0));
  stats.receivedBody(coded(LinkCodec.TOKEN_NATIVE, 4, undefined));
  expect(stats.snapshot(NOW).received.byAlgorithm).toEqual({
    M2M: { messages: 2, codedBytes: 20, contentBytes: 30 },
    TOKEN_NATIVE: { messages: 1, codedBytes: 4, contentBytes: 4 },
  });
});

it('a snapshot stays as it was', () => {
  const stats = new StatsRecorder();
  stats.sentBody(coded(LinkCodec.PLAIN, 1, 1));
  const before = stats.snapshot(NOW);
  stats.sentBody(coded(LinkCodec.PLAIN, 1, 1));
  stats.sent(9);
  expect(before.sent).toMatchObject({ messages: 1, wireBytes: 0, byAlgorithm: { NONE: { messages: 1 } } });
});

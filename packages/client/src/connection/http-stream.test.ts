import { CloseCode } from '@parlance/protocol';
import { encodeRecords } from '@parlance/protocol/records';
import { expect, it, vi } from 'vitest';
import { httpStreams } from './http-stream.js';
import { VirtualClock } from './testing/virtual-clock.js';

/** How long a client waits for a stream over HTTP, in virtual time, with requests that the test answers. */

type Answer = (response: Response) => void;

function setUp({ isAccepted = true } = {}) {
  const clock = new VirtualClock();
  const asked: Answer[] = [];
  vi.stubGlobal('fetch', (_url: URL, { signal }: RequestInit) => {
    return new Promise<Response>((resolve, reject) => {
      asked.push(resolve);
      signal?.addEventListener('abort', () => reject(signal.reason));
    });
  });
  const options = { maxRecord: 1_000, leaving: new Set<() => void>(), isAccepted: () => isAccepted };
  const transport = httpStreams(options, clock);
  const seen: unknown[] = [];
  const open = () =>
    transport.open(new URL('ws://test'), () => Uint8Array.of(1), {
      onOpen: () => seen.push('open'),
      onMessage() {},
      onWritable() {},
      onClose: (code) => seen.push(code),
    });
  const answer = async () => {
    const body = new ReadableStream({ start: (out) => out.enqueue(encodeRecords([Uint8Array.of(7)])) });
    asked.at(-1)?.(new Response(body));
    await clock.pass(0);
  };
  return { clock, asked, seen, open, answer };
}

it('gives up a stream whose head does not come, later each time, until one comes', async ({
  onTestFinished,
}) => {
  onTestFinished(() => void vi.unstubAllGlobals());
  const { clock, seen, open, answer } = setUp();
  for (const patience of [5_000, 10_000]) {
    open();
    await clock.pass(patience - 1);
    expect(seen).toEqual([]);
    await clock.pass(1);
    expect(seen.splice(0)).toEqual([CloseCode.ABNORMAL]);
  }
  const wire = open();
  await clock.pass(19_999);
  await answer();
  await clock.pass(60_000);
  expect(seen.splice(0)).toEqual(['open']);
  wire.close(CloseCode.TIMEOUT, '');
  await clock.pass(1_000);
  expect(seen.splice(0)).toEqual([CloseCode.ABNORMAL]);

  open();
  await clock.pass(5_000);
  expect(seen).toEqual([CloseCode.ABNORMAL]);
  expect(clock.tasks).toBe(0);
});

it('leaves it to its caller how long the first server may take', async ({ onTestFinished }) => {
  onTestFinished(() => void vi.unstubAllGlobals());
  const { clock, seen, open, answer } = setUp({ isAccepted: false });
  open();
  await clock.pass(60_000);
  expect(seen).toEqual([]);
  await answer();
  expect(seen).toEqual(['open']);
});

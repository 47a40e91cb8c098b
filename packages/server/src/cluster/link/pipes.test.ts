import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { expect, it } from 'vitest';
import { Link, type LinkEnd, type NodeWire, Traffic } from './link.js';
import type { Links } from './links.js';
import { createLoopback } from './loopback.js';
import { PIPE_CHARGE, PIPES, Pipes } from './pipes.js';
import { LINK_QUOTA } from './quota.js';

const HERE = 'here00';
const THERE = 'there0';
const NEW = 'new000';

/** The pipes of two nodes, of which the first one has opened a link to the other. */
function setUp(change: Partial<ConstructorParameters<typeof Pipes>[0]> = {}) {
  const [near, far] = createLoopback();
  const overs: unknown[] = [];
  let accept: ((link: Link) => LinkEnd) | undefined;
  const traffic = new Traffic();
  const onOver = (why: unknown) => void overs.push(why);
  const opened = new Link({ node: THERE, traffic, onOver });
  const accepted = new Link({
    node: HERE,
    traffic: new Traffic(),
    accept: (_service, link) => accept?.(link),
    onOver,
  });
  near.listen(opened);
  far.listen(accepted);
  accepted.open(far as NodeWire);
  opened.open(near as NodeWire);
  const options = { isAlive: (node: string) => node === THERE, lives: async (node: string) => node === NEW };
  const here = new Pipes({
    links: { serve() {}, to: () => opened } as unknown as Links,
    ...options,
    ...change,
  });
  const there = new Pipes({
    links: {
      serve: (_service: string, given: typeof accept) => {
        accept = given;
      },
    } as unknown as Links,
    ...options,
  });
  const taken: { readonly pipe: Duplex; readonly about: string }[] = [];
  there.serve('words', (pipe, about) => taken.push({ pipe, about }));
  const begin = (node = THERE, service = 'words') => here.open(node, service, 'about');
  return { opened, accepted, here, there, taken, begin, overs, traffic };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));
const closed = async (pipe: Duplex) => pipe.closed || (await once(pipe, 'close'));
/** All that is read. The other direction of the pipe stays open. */
async function read(pipe: Duplex | undefined): Promise<Buffer> {
  const pieces: Buffer[] = [];
  pipe?.on('data', (piece: Buffer) => pieces.push(piece));
  await once(pipe as Duplex, 'end');
  return Buffer.concat(pieces);
}
const bytes = (size: number, first = 0) => Buffer.from(Array.from({ length: size }, (_, i) => first + i));

it('carries bytes of any size both ways, in order, and ends when both ends have ended', async () => {
  const { begin, taken, opened, accepted } = setUp();
  const pipe = begin();
  const [small, large] = [bytes(3), bytes(300_000, 7)];
  pipe.write(small);
  pipe.end(large);
  await settled();
  const [other] = taken;
  expect(other?.about).toBe('about');
  other?.pipe.write(large);
  other?.pipe.end(small);
  const [there, here] = await Promise.all([read(other?.pipe), read(pipe)]);
  expect(there.equals(Buffer.concat([small, large]))).toBe(true);
  expect(here.equals(Buffer.concat([large, small]))).toBe(true);
  await Promise.all([closed(pipe), closed(other?.pipe as Duplex)]);
  for (const { quota } of [opened, accepted]) expect(quota.hasRoom(LINK_QUOTA.bytes)).toBe(true);
});

it('sends the next piece when the last one was read', async () => {
  const { begin, taken, traffic } = setUp();
  const pipe = begin();
  pipe.end(bytes(5 * 64 * 1024));
  await settled();
  const [other] = taken;
  // To begin, and the first piece.
  expect(traffic.messagesSent).toBe(2);
  const pieces: number[] = [];
  other?.pipe.on('data', (piece: Buffer) => {
    pieces.push(piece.length);
    if (pieces.length === 2) other.pipe.pause();
  });
  await settled();
  await settled();
  expect(pieces).toEqual([65_536, 65_536]);
  // One more waits there.
  expect(traffic.messagesSent).toBe(4);
  other?.pipe.resume();
  await once(other?.pipe as Duplex, 'end');
  expect(pieces).toEqual(Array.from({ length: 5 }, () => 65_536));
});

it('asks the engine about a node that is not known, and keeps what is written meanwhile', async () => {
  const { begin, taken } = setUp();
  const pipe = begin(NEW);
  pipe.end(bytes(9));
  await settled();
  expect([...(await read(taken[0]?.pipe))]).toEqual([...bytes(9)]);
});

it('is closed without an error if the node is gone, or the engine does not answer', async () => {
  for (const lives of [async () => false, () => Promise.reject(new Error('silent'))]) {
    const { begin, taken } = setUp({ lives });
    const pipe = begin('gone00');
    pipe.write(bytes(1));
    await closed(pipe);
    expect(taken).toEqual([]);
  }
});

it('is closed if the other node has no such feature', async () => {
  const { begin, opened, accepted, overs } = setUp();
  await closed(begin(THERE, 'other'));
  expect(overs).toEqual([]);
  for (const { quota } of [opened, accepted]) expect(quota.hasRoom(LINK_QUOTA.bytes)).toBe(true);
});

it('is closed at the other end, and what is under way is lost, if one end gives it up', async () => {
  const { begin, taken } = setUp();
  for (const isBeginner of [true, false]) {
    const pipe = begin();
    await settled();
    const other = taken.pop()?.pipe as Duplex;
    const [one, two] = isBeginner ? [pipe, other] : [other, pipe];
    one.destroy();
    await closed(two);
    expect(two.readableEnded).toBe(false);
  }
});

it('is closed at both ends when the nodes lose each other, and at once on a link that is over', async () => {
  const { begin, taken, opened } = setUp();
  const pipe = begin();
  await settled();
  opened.end(new Error('broken'));
  await Promise.all([closed(pipe), closed(taken[0]?.pipe as Duplex)]);
  await closed(begin());
});

it('takes of the memory of the link what it has, at both ends, up to the last byte', async () => {
  for (const end of ['opened', 'accepted'] as const)
    for (const more of [0, 1]) {
      const all = setUp();
      all[end].quota.add(LINK_QUOTA.bytes - PIPE_CHARGE - 100);
      const pipe = all.begin();
      // At the end that has begun it, what waits behind the first piece.
      if (end === 'opened') pipe.write(bytes(1));
      await settled();
      const size = 100 + more;
      pipe.write(bytes(size));
      await settled();
      await settled();
      expect(pipe.destroyed).toBe(more === 1);
      pipe.destroy();
      await settled();
      expect(all[end].quota.hasRoom(PIPE_CHARGE + 100)).toBe(true);
      expect(all[end].quota.hasRoom(PIPE_CHARGE + 101)).toBe(false);
      expect(all.overs).toEqual([]);
    }
});

it('has room for as many as the memory of the link allows', async () => {
  for (const end of ['opened', 'accepted'] as const) {
    const all = setUp();
    all[end].quota.add(LINK_QUOTA.bytes - 2 * PIPE_CHARGE);
    const pipes = [all.begin(), all.begin(), all.begin()];
    await settled();
    await settled();
    expect(pipes.map(({ destroyed }) => destroyed)).toEqual([false, false, true]);
  }
});

it('ends the link of a node that sends what it was not asked for', async () => {
  const cases: readonly (readonly [string, readonly unknown[]])[] = [
    ['data', [1]],
    ['open', [1, 'words']],
    ['open', [2, 3]],
    ['open', ['2', 'words']],
    ['why', [1]],
  ];
  for (const [type, fields] of cases) {
    const { begin, opened, overs } = setUp();
    begin();
    opened.send(PIPES, 'data', [1], bytes(1));
    opened.send(PIPES, type, fields, bytes(1));
    await settled();
    expect(overs[0], type).toMatchObject({ code: 'bad_message' });
  }
});

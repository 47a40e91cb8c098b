import { describe, expect, it } from 'vitest';
import { type HelloPayload, RECORD_BEHIND } from '../../control/messages.js';
import { body, DurablePair as Pair, textsOf } from '../../testing/durable-pair.js';
import type { DurableRecord, StreamRecord } from './record.js';

/** An engine that has lost the last commits of a session, which another process takes over. */

type Offer = NonNullable<HelloPayload['resume']>;

const STREAM: StreamRecord = { attempt: 1, isRepeatable: false, kept: undefined, parts: [], end: undefined };
const streamsOf = (stream: Partial<StreamRecord>) => new Map([[1, { ...STREAM, ...stream }]]);
const COMPLETE = new Uint8Array(0);

/** A session of which a client has received two messages, an acknowledgement, and a request with a part. */
function begun(): Pair {
  const pair = new Pair().run().record();
  for (const text of ['one', 'two']) {
    pair.client.channel.send(body(text));
    pair.run();
    pair.server.channel.send(body(`to ${text}`));
    pair.record();
  }
  pair.server.record?.handle(1);
  pair.record().later(1_000);
  return pair;
}

/** Continues in another process, whose record has less. The pair then has the events of the client since. */
function goOn(pair: Pair, record: Partial<DurableRecord>, hello = pair.kill()): Pair {
  pair.heard.length = 0;
  pair.told.length = 0;
  pair.takeOver(record).resume(hello.resume as Offer, 0);
  return pair.record();
}

const typesOf = ({ heard }: Pair) => heard.map(({ type }) => type);
const isTold = (pair: Pair) => typesOf(pair).filter((type) => type === 'behind').length;

describe('a client that has received more than is recorded', () => {
  it.each<[string, Partial<DurableRecord>]>([
    ['a message to it', { said: 1, messages: [] }],
    ['that one of its messages is handled', { handled: 0 }],
  ])('is told if the record lacks %s', (_, record) => {
    const pair = goOn(begun(), record);
    expect(isTold(pair)).toBe(1);
    expect(pair.server.record?.isBehind).toBe(true);
    expect(pair.client.state).toBe('established');
  });

  it('is told nothing if the record lacks nothing', () => {
    const pair = goOn(begun(), {});
    expect(isTold(pair)).toBe(0);
    expect(pair.server.record?.isBehind).toBe(false);
  });

  it('is told before anything comes again', () => {
    const pair = begun();
    const hello = pair.kill();
    pair.heard.length = 0;
    pair.told.length = 0;
    const server = pair.takeOver({ said: 1, messages: [] });
    server.resume(hello.resume as Offer, 0);
    server.channel.send(body('to two, again'));
    pair.record();
    expect(typesOf(pair).filter((type) => type !== 'state')).toEqual(['behind', 'message']);
    expect(textsOf(pair.heard, 'message')).toEqual(['to two, again']);
    // The handler is told as well.
    expect(pair.told).toContainEqual(
      expect.objectContaining({ type: 'message', number: 2, redelivered: true }),
    );
  });

  it('is told again if the ACCEPT that says so is lost, and not if it has arrived', () => {
    const pair = begun();
    const first = pair.kill();
    const server = pair.takeOver({ said: 1, messages: [] });
    server.resume(first.resume as Offer, 0);
    server.record?.pollCommit();
    server.record?.handleCommitted(0);
    while (server.pollTransmit() !== undefined);
    server.handleDisconnected(1006, '', 0);
    pair.heard.length = 0;
    server.resume(pair.kill().resume as Offer, 0);
    pair.record();
    expect(isTold(pair)).toBe(1);
    // The next connection carries the token of that ACCEPT, with or without a frame after it.
    server.handleDisconnected(1006, '', 0);
    pair.heard.length = 0;
    server.resume(pair.kill().resume as Offer, 0);
    pair.record();
    expect(isTold(pair)).toBe(0);
    expect(server.record?.isBehind).toBe(false);
  });

  it.each([
    ['is lost with its process', true],
    ['has arrived before its process dies', false],
  ])('is told once if the ACCEPT that says so %s', (_, isLost) => {
    const pair = begun();
    const server = pair.takeOver({ handled: 0 });
    server.resume(pair.kill().resume as Offer, 0);
    const commit = server.record?.pollCommit();
    expect(commit).toMatchObject({ isBehind: true, handled: 1 });
    server.record?.handleCommitted(0);
    const accept = server.pollTransmit() as Uint8Array;
    if (!isLost) pair.client.handleMessage(accept.slice(), 0);
    // The record of this process lacks nothing that the client has received.
    const record = { accept: commit?.accept as DurableRecord['accept'], handled: 1, isBehind: true };
    const next = goOn(pair, record);
    expect(isTold(next)).toBe(1);
    expect(next.commits.at(-1)?.isBehind).toBe(isLost ? undefined : false);
  });

  it('is told nothing once it closes, as nothing comes again', () => {
    const pair = begun();
    pair.client.close('NORMAL', '', 0);
    const next = goOn(pair, { said: 1, messages: [] });
    expect(isTold(next)).toBe(0);
  });

  it('continues after a reason that it does not know', () => {
    const pair = begun();
    const hello = pair.kill();
    const server = pair.takeOver({ handled: 0 });
    server.resume(hello.resume as Offer, 0);
    server.record?.pollCommit();
    server.record?.handleCommitted(0);
    const accept = Buffer.from(server.pollTransmit() as Uint8Array);
    const later = 'records_later';
    expect(later).toHaveLength(RECORD_BEHIND.length);
    accept.write(later, accept.indexOf(RECORD_BEHIND));
    pair.heard.length = 0;
    pair.client.handleMessage(accept, 0);
    pair.run();
    expect([pair.client.state, isTold(pair)]).toEqual(['established', 0]);
  });
});

describe('a request of which the client has received more than is recorded', () => {
  /** A request of which the client has a part. */
  const asked = (isRepeatable: boolean, more = {}): Pair => {
    const pair = new Pair(true, true, more).run().record();
    pair.client.channel.request(body('ask'));
    pair.run().record();
    if (isRepeatable) pair.server.record?.repeat(1);
    pair.server.channel.chunk(1, body('part'));
    pair.record().later(1_000);
    return pair;
  };

  it.each<[string, ReadonlyMap<number, StreamRecord>]>([
    ['of which nothing is recorded', new Map()],
    ['of whose parts the last one is missing', streamsOf({ isRepeatable: true })],
  ])('fails if it is one %s, and the client is told before', (_, streams) => {
    const pair = goOn(asked(true), { streams });
    expect(typesOf(pair).filter((type) => type !== 'state')).toEqual(['behind', 'failure']);
    expect(pair.heard.at(-1)).toMatchObject({ streamId: 1, error: { code: 'interrupted' } });
    expect(textsOf(pair.told, 'request')).toEqual([]);
  });

  it('is one that the client has received to its end', () => {
    const pair = asked(true);
    pair.server.channel.end(1);
    pair.record().later(1_000);
    expect(isTold(goOn(pair, { streams: streamsOf({ isRepeatable: true }) }))).toBe(1);
  });

  it.each<[string, Pair, ReadonlyMap<number, StreamRecord>]>([
    ['if its parts are told beside the record', asked(false, { tellsBeside: true }), streamsOf({})],
    ['if its end is recorded', asked(false), streamsOf({ end: COMPLETE })],
  ])('is none %s', (_, pair, streams) => {
    expect(isTold(goOn(pair, { streams }))).toBe(0);
  });

  it('is none if the client has cancelled it', () => {
    const pair = asked(false);
    pair.client.channel.cancel(1);
    expect(isTold(goOn(pair, { streams: new Map() }))).toBe(0);
  });
});

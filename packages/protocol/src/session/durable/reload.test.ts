import { describe, expect, it } from 'vitest';
import { Extension } from '../../base/constants.js';
import type { HelloPayload } from '../../control/messages.js';
import { body, DURABLE_OPTIONS, DurablePair as Pair, textsOf } from '../../testing/durable-pair.js';
import type { SessionEvent } from '../types.js';

/** A page with a durable session that is loaded again, while the process that has the session lives and after its death. */

/** A session with one message in each direction, of which that of the client is handled. */
const begin = () => {
  const pair = new Pair().run().record();
  pair.client.channel.send(body('handled'));
  pair.server.channel.send(body('said'));
  pair.run().record();
  pair.server.record?.handle(1);
  return pair.record().later(1_000);
};

const numbersOf = (events: readonly SessionEvent[]) =>
  events.flatMap((event) => (event.type === 'message' ? [event.number] : []));
const streamsOf = (events: readonly SessionEvent[], type: 'cancel' | 'request') =>
  events.flatMap((event) => (event.type === type ? [event.streamId] : []));
const haveOf = (hello: HelloPayload) => hello.resume?.have;
const accepted = { established: 'established' };

/** The process dies without a word of the page, and another one has the session. */
const die = (pair: Pair) => pair.takeOver();

describe('a page that is loaded again', () => {
  it('has agreed on that, and says what the page before had', () => {
    const pair = begin();
    expect(pair.client.negotiated?.extensions).toMatchObject({
      [Extension.REBUILD]: '1',
      [Extension.DURABLE]: '1',
    });
    const hello = pair.reload();
    expect(hello.resume?.rebuild).toBe(true);
    expect(haveOf(hello)).toEqual({ messages: 1, sent: 1, written: 1, opened: 0, heard: 0, streams: [] });
  });

  it.each([
    ['lives', () => {}],
    ['has died', (pair: Pair) => void die(pair)],
  ])('continues with its session if the process %s', (_what, happen) => {
    const pair = begin();
    const { id } = pair.client;
    happen(pair);
    expect(pair.answer(pair.reload())).toBeUndefined();
    expect([pair.client.id, pair.client.state]).toEqual([id, accepted.established]);
    pair.client.channel.send(body('of the next page'));
    pair.server.channel.send(body('to the next page'));
    pair.run().record();
    expect(numbersOf(pair.told).at(-1)).toBe(2);
    expect(textsOf(pair.heard, 'message')).toEqual(['to the next page']);
    // And so on, for a page that stays.
    die(pair);
    expect(pair.answer(pair.kill())).toBeUndefined();
    expect(pair.client.state).toBe(accepted.established);
  });

  it.each([
    ['lives', () => {}],
    ['has died', (pair: Pair) => void die(pair)],
  ])('gets the messages that the page before had not got if the process %s', (_what, happen) => {
    const pair = begin();
    const { ticket } = pair.client;
    pair.server.channel.send(body('on its way'));
    pair.run().record();
    // The page before was gone when this arrived.
    happen(pair);
    expect(pair.answer(pair.reload(ticket))).toBeUndefined();
    expect(textsOf(pair.heard, 'message')).toEqual(['on its way']);
  });

  it('leaves its messages to the application of a process that lives', () => {
    const pair = begin();
    pair.client.channel.send(body('not read'));
    pair.run();
    expect(pair.answer(pair.reload())).toBeUndefined();
    pair.client.channel.send(body('of the next page'));
    pair.run();
    expect(numbersOf(pair.told)).toEqual([1, 2, 3]);
    expect(textsOf(pair.told, 'message')).toEqual(['handled', 'not read', 'of the next page']);
    const [, unread, next] = pair.told.flatMap((event) =>
      event.type === 'message' ? [event.body.charge] : [],
    );
    pair.server.channel.consume(0, unread as number);
    pair.server.channel.consume(0, next as number);
    pair.server.record?.handle(3);
    pair.record().later(1_000);
    expect(pair.client.channel.framesUnconfirmed).toBe(0);
  });

  it('does not use numbers again that its process may have told before it died', () => {
    const pair = begin();
    pair.client.channel.send(body('not handled'));
    pair.run();
    die(pair);
    expect(pair.answer(pair.reload())).toBeUndefined();
    expect(pair.told.find(({ type }) => type === 'warning')).toMatchObject({
      message: '1 messages of a page before are not recorded as handled, and will not arrive',
    });
    pair.told.length = 0;
    pair.client.channel.send(body('of the next page'));
    pair.run();
    expect(numbersOf(pair.told)).toEqual([3]);
    expect(pair.told.find(({ type }) => type === 'message')).toMatchObject({ redelivered: false });
  });

  it('keeps its numbers in yet another process', () => {
    const pair = begin();
    pair.client.channel.send(body('not read'));
    pair.run();
    pair.answer(pair.reload());
    pair.client.channel.send(body('of the next page'));
    pair.run();
    die(pair);
    pair.told.length = 0;
    expect(pair.answer(pair.kill())).toBeUndefined();
    expect(numbersOf(pair.told)).toEqual([3]);
    expect(textsOf(pair.told, 'message')).toEqual(['of the next page']);
  });

  it('is not told that the record was behind if its process dies with messages of the page before', () => {
    const pair = begin();
    pair.client.channel.send(body('not read'));
    pair.run();
    pair.answer(pair.reload());
    die(pair);
    pair.told.length = 0;
    expect(pair.answer(pair.kill())).toBeUndefined();
    expect(pair.heard.map(({ type }) => type)).not.toContain('behind');
    expect(pair.told.find(({ type }) => type === 'warning')).toMatchObject({
      message: '1 messages of a page before are not recorded as handled, and will not arrive',
    });
    // And so on, in yet another process.
    pair.record();
    die(pair);
    expect(pair.answer(pair.kill())).toBeUndefined();
    expect(pair.server.record?.isBehind).toBe(false);
  });

  it('is told that the record was behind if it lacks more than messages of the page before', () => {
    const pair = begin();
    pair.client.channel.send(body('not read'));
    pair.run();
    pair.answer(pair.reload());
    pair.client.channel.send(body('of the next page'));
    pair.run();
    pair.server.record?.handle(3);
    pair.record().later(1_000);
    pair.takeOver({ handled: 1 });
    expect(pair.answer(pair.kill())).toBeUndefined();
    expect(pair.heard.map(({ type }) => type)).toContain('behind');
  });

  it('stops the handlers of the page before, except those that run to completion', () => {
    const pair = begin();
    const [stopped, kept] = [pair.client.channel.request(body('a')), pair.client.channel.request(body('b'))];
    pair.run().record();
    pair.server.channel.runToCompletion(kept);
    const hello = pair.reload();
    expect(haveOf(hello)).toMatchObject({ opened: kept, streams: [] });
    pair.answer(hello);
    expect(streamsOf(pair.told, 'cancel')).toEqual([stopped]);
    expect(pair.heard.find(({ type }) => type === 'takenUp')).toMatchObject({ cancelled: [stopped] });
    for (const id of [stopped, kept]) {
      pair.server.channel.chunk(id, body('too late'));
      pair.server.channel.end(id);
    }
    expect(pair.client.channel.request(body('c'))).toBe(kept + 2);
    pair.run().record();
    expect(streamsOf(pair.told, 'request')).toEqual([stopped, kept, kept + 2]);
    expect(pair.heard.filter(({ type }) => type === 'part')).toEqual([]);
  });

  it('never has a handler called whose start was not recorded', () => {
    const pair = begin();
    const id = pair.client.channel.request(body('a'));
    pair.run();
    const hello = pair.reload();
    pair.answer(hello);
    expect(streamsOf(pair.told, 'request')).toEqual([]);
    expect(pair.heard.find(({ type }) => type === 'takenUp')).toMatchObject({ cancelled: [id] });
  });

  it('is told which of its requests have died with their process', () => {
    const pair = begin();
    const id = pair.client.channel.request(body('a'));
    pair.run().record();
    pair.server.record?.repeat(id);
    pair.record();
    const hello = pair.reload();
    const record = { attempt: 1, isRepeatable: true, kept: undefined, parts: [], end: undefined };
    pair.takeOver({ streams: new Map([[id, record]]) });
    pair.answer(hello);
    expect(pair.heard.find(({ type }) => type === 'takenUp')).toMatchObject({ cancelled: [id] });
    expect(pair.commits.at(-1)?.streams.get(id)).toMatchObject({ isForgotten: true });
    expect(pair.client.channel.request(body('b'))).toBe(id + 2);
  });

  it('begins a new session if its count is stale, as after a crash', () => {
    const pair = begin();
    const { ticket } = pair.client;
    pair.server.channel.send(body('got'));
    pair.run().record().later(1_000);
    const hello = pair.reload({ have: ticket?.have });
    expect(pair.answer(hello)).toBe('no_state');
  });

  it.each([
    ['requests', { opened: 1, streams: [1, 0, 0] }],
    ['impossible counts', { sent: 2 }],
    ['more messages than there can be', { messages: 2 ** 21 }],
    ['numbers far beyond the record', { written: 2 ** 21 }],
  ])('begins a new session if it states %s', (_what, wrong) => {
    const pair = begin();
    const { ticket } = pair.client;
    const have = { ...ticket?.have, ...wrong };
    expect(pair.answer(pair.reload({ ...ticket, have }))).toBe('no_state');
    expect(pair.answer(pair.reload({ ...ticket, have: undefined }))).toBe('no_state');
  });

  it('may be loaded again before it has the answer, and the page before may not come back then', () => {
    const pair = begin();
    const [{ ticket }, client] = [pair.client, pair.client];
    pair.server.channel.send(body('on its way'));
    pair.server.record?.pollCommit();
    pair.server.record?.handleCommitted(0);
    // Its ACCEPT, and what follows, are lost.
    const hello = pair.reload(ticket);
    pair.server.handleDisconnected(1006, '', 0);
    pair.server.resume(hello.resume as never, 0);
    pair.client = client;
    const old = pair.kill();
    const again = { ...old, resume: { ...old.resume, attempt: 9 } as HelloPayload['resume'] };
    expect(pair.server.checkResume(again, DURABLE_OPTIONS.subprotocol)).toBe('no_state');
    const next = pair.reload({ ...ticket, attempt: 9 });
    expect(pair.answer(next)).toBeUndefined();
    expect(textsOf(pair.heard, 'message')).toEqual(['on its way']);
  });

  it('is refused when former pages have left more behind than a window', () => {
    const pair = begin();
    let reloads = 0;
    for (; reloads < 100; reloads++) {
      pair.client.channel.send(body('x'.repeat(1_000)));
      pair.run();
      if (pair.answer(pair.reload()) !== undefined) break;
    }
    expect(reloads).toBeGreaterThan(1);
    expect(reloads).toBeLessThan(100);
  });
});

describe('a server that is wrong about a page that was loaded again', () => {
  it.each([
    ['has less than was acknowledged', { handled: 0, again: [] }],
    ['asks for a request', { handled: 1, again: [1] }],
    ['says nothing of it', undefined],
    ['says what cannot be', { handled: -1, again: [] }],
  ])('fails if it %s', (_what, kept) => {
    const pair = begin();
    const goOnFrom = pair.server.channel as unknown as { goOnFrom(have: object, is: boolean): object };
    const original = goOnFrom.goOnFrom.bind(goOnFrom);
    goOnFrom.goOnFrom = (have, isReloaded) => ({ ...original(have, isReloaded), kept });
    pair.answer(pair.reload());
    expect(pair.client.state).toBe('closed');
    expect(pair.heard.find(({ type }) => type === 'ended')).toMatchObject({
      error: { code: expect.stringMatching(/^bad_(acceptance|message)$/), closeCode: 4400 },
    });
  });
});

import { describe, expect, it } from 'vitest';
import { Extension } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import type { HelloPayload } from '../../control/messages.js';
import {
  body,
  DURABLE_OPTIONS as OPTIONS,
  DurablePair as Pair,
  textsOf,
} from '../../testing/durable-pair.js';
import * as durable from './client-module.js';

describe('a durable session', () => {
  it('is not accepted before that is recorded', () => {
    const pair = new Pair().run();
    expect(pair.client.state).toBe('connecting');
    expect(pair.server.hasOutput).toBe(false);
    pair.record();
    expect(pair.client.state).toBe('established');
    expect(pair.commits[0]).toMatchObject({ number: 1, accept: { attempt: 0 } });
  });

  it('records no token', () => {
    const pair = new Pair().run().record();
    const { token } = pair.kill().resume as { token: string };
    expect(JSON.stringify(pair.commits[0]?.accept)).not.toContain(token);
    expect(Buffer.from(pair.commits[0]?.begin as Uint8Array).includes(token)).toBe(false);
  });

  it('keeps what arrives while its client loads the code for it', () => {
    const pair = new Pair().run();
    pair.server.record?.pollCommit();
    pair.server.record?.handleCommitted(0);
    pair.client.handleMessage(pair.server.pollTransmit() as Uint8Array, 0);
    pair.client.holdFrames();
    pair.server.channel.send(body('at once'));
    pair.server.record?.pollCommit();
    pair.server.record?.handleCommitted(0);
    for (let frame = pair.server.pollTransmit(); frame !== undefined; frame = pair.server.pollTransmit())
      pair.client.handleMessage(frame, 0);
    pair.client.openChannel(durable);
    pair.client.releaseFrames(0);
    expect(textsOf(pair.run().heard, 'message')).toEqual(['at once']);
  });

  it.each(['fail', 'refuse'] as const)('can %s a request only once that is recorded', (verb) => {
    const pair = new Pair().run().record();
    const id = pair.client.channel.request(body('a'));
    pair.run().record();
    pair.server.channel[verb](id, new ProtocolError('peer_gone', 'the agent is gone'));
    const failed = () => pair.run().heard.some(({ type }) => type === 'failure');
    expect(failed()).toBe(false);
    pair.record();
    expect(failed()).toBe(true);
    expect(pair.commits.at(-1)?.streams.get(id)?.end?.length).toBeGreaterThan(0);
  });

  it('tells a message when it is recorded', () => {
    const pair = new Pair().run().record();
    pair.server.channel.send(body('said'));
    expect(textsOf(pair.run().heard, 'message')).toEqual([]);
    expect(pair.server.channel.queuedOn(0)).toBeGreaterThan(0);
    pair.record();
    expect(textsOf(pair.heard, 'message')).toEqual(['said']);
    expect(pair.server.channel.queuedOn(0)).toBe(0);
  });

  it('acknowledges a message when it is recorded as handled', () => {
    const pair = new Pair().run().record();
    pair.client.channel.send(body('to be handled'));
    pair.run().later(1_000);
    expect(pair.told.find(({ type }) => type === 'message')).toMatchObject({ number: 1, redelivered: false });
    expect(pair.client.channel.framesUnconfirmed).toBe(1);
    pair.server.record?.handle(1);
    pair.later(1_000);
    expect(pair.client.channel.framesUnconfirmed).toBe(1);
    pair.record().later(1_000);
    expect(pair.client.channel.framesUnconfirmed).toBe(0);
  });

  it('counts as handled what was received, each once', () => {
    const pair = new Pair().run().record();
    pair.client.channel.send(body('one'));
    pair.run();
    pair.server.record?.handle(2);
    expect(pair.server.record?.handled).toBe(0);
    pair.server.record?.handle(1);
    pair.server.record?.handle(1);
    pair.record();
    expect(pair.commits.filter(({ handled }) => handled !== undefined)).toHaveLength(1);
  });

  it('puts state, answer and watermark into one commit', () => {
    const pair = new Pair().run().record();
    pair.client.channel.send(body('one'));
    pair.run();
    pair.server.record?.setState(Uint8Array.of(1));
    pair.server.record?.handle(1);
    pair.server.channel.send(body('answer'));
    const commit = pair.server.record?.pollCommit();
    expect(commit).toMatchObject({ state: Uint8Array.of(1), handled: 1, messages: [{ number: 1 }] });
    expect(pair.server.record?.pollCommit()).toBeUndefined();
  });

  it('says once when a commit can be polled, and after the present one if there is a next', () => {
    const { server } = new Pair().run().record();
    let wakes = 0;
    server.record?.whenDue(() => wakes++);
    expect(wakes).toBe(0);
    server.channel.send(body('one'));
    server.channel.send(body('two'));
    expect(wakes).toBe(1);
    server.record?.pollCommit();
    server.channel.send(body('three'));
    expect(wakes).toBe(1);
    server.record?.handleCommitted(0);
    expect(wakes).toBe(2);
    server.record?.pollCommit();
    server.record?.handleCommitted(0);
    expect(wakes).toBe(2);
    server.channel.send(body('four'));
    server.record?.whenDue(() => wakes++);
    expect(wakes).toBe(4);
  });

  it('writes one commit at a time, and says when everything so far is recorded', () => {
    const pair = new Pair().run().record();
    const said: string[] = [];
    pair.server.channel.send(body('one'));
    pair.server.record?.afterCommit(() => said.push('one'));
    pair.server.record?.pollCommit();
    pair.server.channel.send(body('two'));
    pair.server.record?.afterCommit(() => said.push('two'));
    expect([pair.server.channel.hasUntold, pair.server.record?.pollCommit()]).toEqual([true, undefined]);
    pair.server.record?.handleCommitted(0);
    expect(said).toEqual(['one']);
    pair.record();
    pair.server.record?.afterCommit(() => said.push('three'));
    expect(said).toEqual(['one', 'two', 'three']);
  });

  describe('whose client writes to other agents', () => {
    /** One for agent bob, one for the application, another one for bob. */
    const written = () => {
      const pair = new Pair().run().record();
      pair.client.channel.send({ ...body('to bob'), address: 'bob' });
      pair.client.channel.send(body('mine'));
      pair.client.channel.send({ ...body('to bob as well'), address: 'bob' });
      pair.run();
      expect([1, 2, 3].map((number) => pair.server.record?.isOpen(number))).toEqual([true, false, true]);
      return pair;
    };
    const told = (pair: Pair, since: number) =>
      pair.told.slice(since).flatMap((event) => (event.type === 'message' ? [event.number] : []));

    it('acknowledges none of them before it is settled, although later ones are handled', () => {
      const pair = written();
      pair.server.record?.handle(2);
      pair.record().later(1_000);
      expect(pair.commits.at(-1)).toMatchObject({ handled: 2, opened: [1] });
      expect(pair.client.channel.framesUnconfirmed).toBe(3);
      pair.server.record?.settle(1);
      pair.later(1_000);
      expect(pair.client.channel.framesUnconfirmed).toBe(3);
      pair.record().later(1_000);
      expect(pair.commits.at(-1)).toMatchObject({ handled: undefined, settled: [1] });
      expect(pair.client.channel.framesUnconfirmed).toBe(1);
    });

    it('gets those again that are not settled, and hears no other one twice', () => {
      const pair = written();
      pair.server.record?.handle(2);
      pair.record();
      const since = pair.told.length;
      const hello = pair.kill();
      pair.takeOver().resume(hello.resume as NonNullable<HelloPayload['resume']>, 0);
      pair.run().record().run();
      expect(told(pair, since)).toEqual([1, 3]);
      const again = pair.told.slice(since).filter(({ type }) => type === 'message');
      expect(again).toMatchObject([{ redelivered: true }, { redelivered: true }]);
      pair.server.record?.settle(1);
      pair.server.record?.settle(3);
      pair.server.record?.handle(3);
      pair.record().later(1_000);
      expect(pair.client.channel.framesUnconfirmed).toBe(0);
    });

    it('says nothing of one that is settled before it counts as handled', () => {
      const pair = written();
      pair.server.record?.settle(1);
      pair.server.record?.handle(2);
      pair.record();
      expect(pair.commits.at(-1)).toMatchObject({ handled: 2, opened: [], settled: [] });
    });

    it('says nothing of one that is settled in the commit in which it counts as handled', () => {
      const pair = written();
      pair.server.record?.handle(2);
      pair.server.record?.settle(1);
      pair.record().later(1_000);
      expect(pair.commits.at(-1)).toMatchObject({ handled: 2, opened: [], settled: [] });
      expect(pair.client.channel.framesUnconfirmed).toBe(1);
    });
  });

  it('starts a handler when its start is recorded, and not for a request that was cancelled meanwhile', () => {
    const pair = new Pair().run().record();
    pair.client.channel.request(body('one'));
    const cancelled = pair.client.channel.request(body('two'));
    pair.run();
    pair.client.channel.cancel(cancelled);
    pair.run();
    expect(textsOf(pair.told, 'request')).toEqual([]);
    pair.record();
    expect(textsOf(pair.told, 'request')).toEqual(['one']);
    expect(pair.told.some(({ type }) => type === 'cancel')).toBe(false);
    expect(pair.heard.filter(({ type }) => type === 'end')).toMatchObject([{ streamId: cancelled }]);
  });

  it('tells parts beside the record if it may, but for a handler that is called again', () => {
    const pair = new Pair(true, true, { tellsBeside: true }).run().record();
    const [once, again] = [
      pair.client.channel.request(body('once')),
      pair.client.channel.request(body('again')),
    ];
    pair.run().record();
    pair.server.record?.repeat(again);
    pair.record();
    for (const streamId of [once, again]) pair.server.channel.chunk(streamId, body(`part ${streamId}`));
    pair.server.channel.end(once);
    expect(textsOf(pair.run().heard, 'part')).toEqual([`part ${once}`]);
    expect(pair.heard.some(({ type }) => type === 'end')).toBe(false);
    pair.record();
    expect(textsOf(pair.heard, 'part')).toEqual([`part ${once}`, `part ${again}`]);
    expect(pair.heard.some(({ type }) => type === 'end')).toBe(true);
    expect(pair.commits.at(-1)?.streams.get(once)?.parts).toHaveLength(1);
  });

  it.each<[string, (channel: Pair['server']['channel'], streamId: number) => void]>([
    ['ends', (channel, streamId) => channel.end(streamId)],
    ['answers', (channel, streamId) => channel.respond(streamId, body('late'))],
    ['fails', (channel, streamId) => channel.fail(streamId, new ProtocolError('internal', 'late'))],
    ['is refused', (channel, streamId) => channel.refuse(streamId, new ProtocolError('internal', 'late'))],
  ])(
    'tells that a reply has failed, although its handler continues and %s before that is recorded',
    (_, late) => {
      const pair = new Pair(true, true, { tellsBeside: true }).run().record();
      const streamId = pair.client.channel.request(body('one'));
      pair.run().record();
      const { channel } = pair.server;
      channel.chunk(streamId, body('part'));
      pair.record().heard.length = 0;
      channel.fail(streamId, new ProtocolError('interrupted', 'stopped'));
      channel.chunk(streamId, body('late'));
      late(channel, streamId);
      expect(pair.run().heard).toEqual([]);
      pair.record();
      expect(pair.heard).toMatchObject([{ type: 'failure', streamId, error: { code: 'interrupted' } }]);
      expect(pair.commits.at(-1)?.streams.get(streamId)?.parts).toEqual([]);
    },
  );

  it('says CLOSE after everything that waits for the record', () => {
    const pair = new Pair().run().record();
    pair.server.channel.send(body('the last'));
    pair.server.close('NORMAL', '', 0);
    pair.run();
    expect(pair.server.state).toBe('closing');
    pair.record();
    expect(textsOf(pair.heard, 'message')).toEqual(['the last']);
    expect([pair.client.state, pair.server.state]).toEqual(['closing', 'closed']);
    expect(pair.told.at(-1)).toMatchObject({ type: 'ended', error: undefined });
  });

  it('closes with a client whose messages are not handled', () => {
    const pair = new Pair().run().record();
    pair.client.channel.send(body('unread'));
    pair.run();
    pair.client.close('NORMAL', '', 0);
    pair.run();
    expect(pair.heard.at(-1)).toMatchObject({ type: 'ended', error: undefined });
  });

  it.each([
    ['the client', new Pair(false, true)],
    ['the server', new Pair(true, false)],
  ])('is a plain one if %s does not want it', (_, pair) => {
    pair.run();
    expect(pair.client.state).toBe('established');
    expect(pair.server.record).toBeUndefined();
    expect(pair.client.negotiated?.extensions[Extension.DURABLE]).toBeUndefined();
    expect(pair.kill().resume?.have).toBeUndefined();
  });
});

describe('another process', () => {
  const killed = () => {
    const pair = new Pair().run().record();
    pair.client.channel.send(body('not handled'));
    pair.server.channel.send(body('said'));
    pair.run().record();
    return { pair, hello: pair.kill() };
  };

  it('continues with a client that says what it has', () => {
    const { pair, hello } = killed();
    expect(hello.resume?.have).toEqual({
      ...{ messages: 1, sent: 0, written: 1, opened: 0, heard: 0, streams: [] },
    });
    const server = pair.takeOver();
    expect(server.checkResume(hello, OPTIONS.subprotocol)).toBeUndefined();
    server.resume(hello.resume as NonNullable<HelloPayload['resume']>, 0);
    expect(server.pollTransmit()).toBeUndefined();
    pair.record();
    expect(pair.client.state).toBe('established');
    expect(textsOf(pair.heard, 'message')).toEqual(['said']);
    expect(pair.told.at(-1)).toMatchObject({ type: 'message', number: 1, redelivered: true });
  });

  it('writes again what the client lacks', () => {
    const { pair, hello } = killed();
    const server = pair.takeOver();
    const { have, ...offer } = hello.resume as NonNullable<HelloPayload['resume']>;
    server.resume({ ...offer, have: { ...(have as NonNullable<typeof have>), messages: 0 } }, 0);
    pair.record();
    expect(textsOf(pair.heard, 'message')).toEqual(['said', 'said']);
  });

  it.each<[string, (hello: HelloPayload) => HelloPayload['resume'], string]>([
    [
      'says something else than what it has',
      ({ resume }) => ({ ...resume, have: { messages: -1 } }) as HelloPayload['resume'],
      'no_state',
    ],
    [
      'does not say what it has',
      ({ resume }) => ({ ...resume, have: undefined }) as HelloPayload['resume'],
      'no_state',
    ],
    [
      'has another token',
      ({ resume }) => ({ ...resume, token: 'guessed' }) as HelloPayload['resume'],
      'unknown_session',
    ],
    [
      'is older than one before',
      ({ resume }) => ({ ...resume, attempt: 0 }) as HelloPayload['resume'],
      'stale_attempt',
    ],
  ])('refuses a client that %s', (_, change, reason) => {
    const { pair, hello } = killed();
    const server = pair.takeOver();
    expect(server.checkResume({ ...hello, resume: change(hello) }, OPTIONS.subprotocol)).toBe(reason);
  });

  it('refuses a client that has written less than is handled', () => {
    const { pair, hello } = killed();
    expect(pair.takeOver({ handled: 1 }).checkResume(hello, OPTIONS.subprotocol)).toBeUndefined();
    expect(pair.takeOver({ handled: 2 }).checkResume(hello, OPTIONS.subprotocol)).toBe('no_state');
  });

  it.each([
    ['written', 2 ** 20, 0],
    ['messages', 2 ** 20, 1],
  ])('refuses a client whose %s are far beyond what is recorded', (name, most, known) => {
    const { pair, hello } = killed();
    const server = pair.takeOver();
    const resume = hello.resume as NonNullable<HelloPayload['resume']>;
    const refusalOf = (count: number) =>
      server.checkResume(
        { ...hello, resume: { ...resume, have: { ...resume.have, [name]: count } as never } },
        OPTIONS.subprotocol,
      );
    expect(refusalOf(known + most)).toBeUndefined();
    expect(refusalOf(known + most + 1)).toBe('no_state');
  });

  it('refuses a client with more requests than it may have', () => {
    const { pair, hello } = killed();
    const server = pair.takeOver();
    const withStreams = (count: number): HelloPayload => {
      const streams = Array.from({ length: count }, (_, i) => [2 * i + 1, 0, 0]).flat();
      const resume = hello.resume as NonNullable<HelloPayload['resume']>;
      return { ...hello, resume: { ...resume, have: { ...resume.have, opened: 99, streams } } };
    };
    expect(server.checkResume(withStreams(6), OPTIONS.subprotocol)).toBeUndefined();
    expect(server.checkResume(withStreams(7), OPTIONS.subprotocol)).toBe('no_state');
  });

  it('continues with the larger of what client and record know', () => {
    const { pair, hello } = killed();
    const server = pair.takeOver({ said: 0, messages: [] });
    server.resume(hello.resume as NonNullable<HelloPayload['resume']>, 0);
    pair.record();
    server.channel.send(body('next'));
    expect(pair.server.record?.pollCommit()?.messages).toMatchObject([{ number: 2 }]);
  });

  it('does not answer a client for which nothing is recorded', () => {
    const { pair, hello } = killed();
    const server = pair.takeOver();
    server.resume(hello.resume as NonNullable<HelloPayload['resume']>, 0);
    server.handleDisconnected(1006, '', 0);
    pair.record();
    expect(server.state).toBe('suspended');
    const next = pair.kill();
    expect(server.checkResume(next, OPTIONS.subprotocol)).toBeUndefined();
    server.resume(next.resume as NonNullable<HelloPayload['resume']>, 0);
    pair.record();
    expect(pair.client.state).toBe('established');
  });

  it('marks what the process before the last one may have handled', () => {
    const { pair, hello } = killed();
    pair.takeOver().resume(hello.resume as NonNullable<HelloPayload['resume']>, 0);
    pair.server.record?.pollCommit();
    pair.server.record?.handleCommitted(0);
    // The client has its ACCEPT, and this process dies before it reads what the client writes again.
    pair.client.handleMessage(pair.server.pollTransmit() as Uint8Array, 0);
    expect(pair.kill().resume?.have).toMatchObject({ sent: 0, written: 1 });
  });

  it('keeps a reply in the record until the client has its end', () => {
    const pair = new Pair().run().record();
    pair.client.channel.request(body('ask'));
    pair.run().record();
    pair.server.channel.chunk(1, body('part'));
    pair.record();
    pair.server.channel.end(1);
    pair.server.record?.pollCommit();
    pair.server.record?.handleCommitted(0);
    while (pair.server.pollTransmit() !== undefined);
    // The end is lost, and the acknowledgement of the part is not.
    pair.later(1_000);
    expect(pair.server.record?.pollCommit(true)?.streams.get(1)?.isForgotten ?? false).toBe(false);
  });
});

describe('an engine that has forgotten what it had confirmed', () => {
  type Offer = NonNullable<HelloPayload['resume']>;

  it('calls no handler again that was started', () => {
    const pair = new Pair().run().record();
    pair.client.channel.request(body('started'));
    pair.run().record().later(1_000);
    pair.client.channel.request(body('not started'));
    pair.run();
    const hello = pair.kill();
    expect(hello.resume?.have?.['streams']).toEqual([...[1, 0, 1], ...[3, 0, 0]]);
    pair.told.length = 0;
    pair.takeOver().resume(hello.resume as Offer, 0);
    pair.record();
    expect(textsOf(pair.told, 'request')).toEqual(['not started']);
    expect(pair.heard.filter(({ type }) => type === 'failure')).toMatchObject([
      { streamId: 1, error: { code: 'interrupted', side: 'remote' } },
    ]);
  });

  it('still knows that twice, when it has forgotten nothing any more', () => {
    const pair = new Pair().run().record();
    pair.client.channel.request(body('started'));
    pair.run().record().later(1_000);
    const first = pair.kill();
    const server = pair.takeOver();
    server.resume(first.resume as Offer, 0);
    // The ACCEPT is lost.
    server.handleDisconnected(1006, '', 0);
    const second = pair.kill();
    expect(second.resume?.have?.['streams']).toEqual([1, 0, 1]);
    server.resume(second.resume as Offer, 0);
    pair.record();
    expect(pair.heard.at(-1)).toMatchObject({ type: 'failure', error: { code: 'interrupted' } });
  });

  it('handles nothing again that the client has had acknowledged', () => {
    const pair = new Pair().run().record();
    pair.client.channel.send(body('one'));
    pair.run();
    pair.server.record?.handle(1);
    pair.record().later(1_000);
    const hello = pair.kill();
    const server = pair.takeOver({ handled: 0 });
    server.resume(hello.resume as Offer, 0);
    pair.told.length = 0;
    pair.record();
    expect(server.record?.handled).toBe(1);
    expect(textsOf(pair.told, 'message')).toEqual([]);
    pair.client.channel.send(body('two'));
    pair.run();
    expect(pair.told.at(-1)).toMatchObject({ type: 'message', number: 2, redelivered: false });
  });
});

describe('a client of a durable session', () => {
  const resumed = (change: (kept: { handled: number; again: number[] }) => object) => {
    const pair = new Pair().run().record();
    pair.client.channel.send(body('one'));
    pair.run().later(1_000);
    pair.server.record?.handle(1);
    pair.record().later(1_000);
    pair.client.channel.send(body('two'));
    pair.run();
    const hello = pair.kill();
    const server = pair.takeOver();
    server.resume(hello.resume as NonNullable<HelloPayload['resume']>, 0);
    const channel = (pair.client as unknown as { channel: { goOnWith(kept: object): void } }).channel;
    const goOn = channel.goOnWith.bind(channel);
    channel.goOnWith = (kept) => goOn(change(kept as { handled: number; again: number[] }));
    return pair.record();
  };

  it.each([0, 3])('ends the session if %i messages are handled of 1 to 2 that may be', (handled) => {
    const pair = resumed((kept) => ({ ...kept, handled }));
    expect(pair.heard.at(-1)).toMatchObject({ type: 'ended', error: { code: 'bad_acceptance' } });
  });

  it.each([1, 2])('continues if %i messages are', (handled) => {
    const pair = resumed((kept) => ({ ...kept, handled }));
    expect(pair.client.state).toBe('established');
  });

  it('ignores requests that it has not made', () => {
    expect(resumed((kept) => ({ ...kept, again: [1, 99] })).client.state).toBe('established');
  });

  it('says again what it has cancelled while HELLO was under way', () => {
    const pair = new Pair().run().record();
    pair.client.channel.request(body('ask'));
    pair.run().record();
    pair.server.record?.repeat(1);
    pair.record();
    const hello = pair.kill();
    pair.client.channel.cancel(1);
    const stream = { attempt: 1, isRepeatable: true, kept: undefined, parts: [], end: undefined };
    const server = pair.takeOver({ streams: new Map([[1, stream]]) });
    server.resume(hello.resume as NonNullable<HelloPayload['resume']>, 0);
    pair.told.length = 0;
    pair.record();
    expect(pair.heard.at(-1)).toMatchObject({ type: 'state', state: 'established' });
    expect(pair.heard).toContainEqual({ type: 'end', streamId: 1 });
    expect(textsOf(pair.told, 'request')).toEqual([]);
    // Soon, as the client names it no more.
    expect(pair.commits.at(-1)?.streams.get(1)).toMatchObject({ isForgotten: true });
  });

  it('counts what it has not read from processes before, up to a bound', () => {
    const pair = new Pair().run().record();
    const { sessionWindow } = OPTIONS.limits;
    let total = 0;
    const isClosed = () => pair.client.state === 'closed';
    for (let epoch = 0; !isClosed(); epoch++) {
      expect(epoch).toBeLessThan(100);
      pair.server.channel.send(body('x'.repeat(2_900)));
      pair.record().later(1_000);
      const { heldBytes } = pair.client;
      if (isClosed()) break;
      expect(heldBytes).toBeGreaterThan(total);
      total = heldBytes;
      const hello = pair.kill();
      pair
        .takeOver({ messages: [], said: epoch + 1 })
        .resume(hello.resume as NonNullable<HelloPayload['resume']>, 0);
      pair.commits.length = 1;
      pair.record();
    }
    expect(pair.heard.at(-1)).toMatchObject({ type: 'ended', error: { code: 'window_exceeded' } });
    expect(total).toBeGreaterThan(3 * sessionWindow);
    expect(total).toBeLessThan(6 * sessionWindow);
  });
});

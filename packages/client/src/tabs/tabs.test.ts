import type { RequestOptions } from '@parlance/protocol';
import { ProtocolError, RequestError } from '@parlance/protocol/client';
import { describe, expect, it } from 'vitest';
import { BEAT_MS, SILENCE_MS } from './presence.js';
import { messageOf, originOf, settle, textOf, withTab } from './testing/origin.js';

/** Tabs that share a session, over `MessageChannel`. */

describe('tabs that share a session', () => {
  it('have one session for equal keys, and look like its owner', async () => {
    const origin = originOf();
    const [one, two, other] = await Promise.all([origin.open(), origin.open(), origin.open({ key: 'b' })]);
    expect(origin.sessions.length).toBe(2);
    for (const { session } of [one, two, other]) {
      expect(session.id).toBe('sess_1');
      expect(session.state).toBe('established');
      expect(session.negotiated.extensions['link']).toBe('{}');
      expect(session.principal).toBeUndefined();
    }
    expect((await one.session.request('hello')).text).toBe('re: hello');
    expect(await textOf(two.session.stream('hello'))).toBe('re: hello');
  });

  it('send text, bytes and JSON, and count them', async () => {
    const { session, ...origin } = await withTab();
    const bytes = Uint8Array.of(9, 1, 2, 3).subarray(1);
    const sending = session.send(bytes, { to: 'agent-1' });
    bytes.fill(0);
    await sending;
    await session.send({ a: [1] });
    await Promise.all([session.send(new Blob(['in a blob'])), session.send('text', { algorithm: 'NONE' })]);
    expect(origin.host().sent).toEqual([
      [Uint8Array.of(1, 2, 3), 'agent-1'],
      ['{"a":[1]}', undefined],
      [new TextEncoder().encode('in a blob'), undefined],
      ['text', undefined],
    ]);
    expect(session.stats().sent.messages).toBe(4);
    await session.send({ text: 'as text' });
    await session.send({ bytes: Uint8Array.of(4) });
    await session.send({ json: { text: 'as JSON' } });
    await session.send({ tokens: [1, 2] });
    expect(origin.host().sent.slice(4)).toEqual([
      ['as text', undefined],
      [Uint8Array.of(4), undefined],
      ['{"text":"as JSON"}', undefined],
      [{ tokens: Uint32Array.of(1, 2) }, undefined],
    ]);
    const gone = Object.assign(new Blob(['x']), { arrayBuffer: () => Promise.reject(new Error('gone')) });
    const failing = expect(session.send(gone)).rejects.toMatchObject({ code: 'invalid_argument' });
    await session.send('continues');
    await failing;
    await session.flush();
  });

  it('read replies with their metadata, and binary parts', async () => {
    const { session, host } = await withTab();
    host().answer = async function* () {
      yield 'text';
      yield Uint8Array.of(0xff, 0xfe);
    };
    const reply = session.stream('x');
    const parts: unknown[] = [];
    for await (const part of reply) {
      parts.push(part.bytes.length === 2 ? part.bytes : part.text);
      expect(reply.metadata).toEqual({ model: 'test' });
      expect(reply.id).toBe(7);
      // The position of the tab, although its host may be ahead.
      expect([reply.keptId, reply.position]).toEqual(['reply_1', 10 + parts.length]);
      if (part.bytes.length === 2)
        expect(() => part.text).toThrow(expect.objectContaining({ code: 'bad_utf8' }));
    }
    expect(parts).toEqual(['text', Uint8Array.of(0xff, 0xfe)]);
  });

  it('get errors with code, side, data and what else they have', async () => {
    const { session, host } = await withTab();
    const given = new RequestError('quota', 'used up', {
      side: 'remote',
      data: { left: 0 },
      retryable: true,
      retryAfterMs: 50,
    });
    host().answer = async function* () {
      yield 'first';
      throw given;
    };
    const failed = await session.request('x').catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(RequestError);
    expect(failed).toMatchObject({
      code: 'quota',
      message: 'used up',
      side: 'remote',
      data: { left: 0 },
      retryable: true,
      retryAfterMs: 50,
    });
    let text = '';
    const read = async () => {
      for await (const part of session.stream('x')) text += part.text;
    };
    await expect(read()).rejects.toMatchObject({ code: 'quota', data: { left: 0 } });
    expect(text).toBe('first');

    host().answer = () => {
      throw new TypeError('a secret of the host');
    };
    await expect(session.request('x')).rejects.toMatchObject({
      code: 'internal',
      message: expect.not.stringContaining('secret'),
    });
  });

  it('cancel what they no longer read, by loop, call and signal', async () => {
    const { session, host } = await withTab();
    host().answer = async function* () {
      yield 'first';
      await new Promise(() => {});
    };
    for await (const _ of session.stream('left')) break;
    const called = session.stream('called');
    called.cancel();
    expect(await textOf(called)).toBe('');
    const abort = new AbortController();
    const streamed = textOf(session.stream('aborted', { signal: abort.signal }));
    const whole = session.request('whole', { signal: abort.signal });
    await settle();
    abort.abort(new Error('enough'));
    await expect(streamed).rejects.toThrow('enough');
    await expect(whole).rejects.toThrow('enough');
    await settle();
    expect([...host().cancelled].sort()).toEqual(['aborted', 'called', 'left', 'whole']);
    await expect(session.request('x', { signal: abort.signal })).rejects.toThrow('enough');
  });

  it('withdraw a message whose signal aborts before the session has taken it', async () => {
    const { session, host } = await withTab();
    host().room = new Promise(() => {});
    const abort = new AbortController();
    const sending = session.send('x', { signal: abort.signal });
    await settle();
    abort.abort(new Error('withdrawn'));
    await expect(sending).rejects.toThrow('withdrawn');
    expect(host().sent).toEqual([]);
  });

  it('send what waits behind a message that is withdrawn', async () => {
    const { session, host } = await withTab();
    const slow = Object.assign(new Blob(['x']), { arrayBuffer: () => new Promise(() => {}) });
    const abort = new AbortController();
    const sending = session.send(slow, { signal: abort.signal });
    const next = [session.send(new Blob(['a blob'])), session.send('behind it')];
    await settle();
    expect(host().sent).toEqual([]);
    abort.abort(new Error('withdrawn'));
    await expect(sending).rejects.toThrow('withdrawn');
    await Promise.all(next);
    expect(host().sent).toEqual([
      [new TextEncoder().encode('a blob'), undefined],
      ['behind it', undefined],
    ]);
  });

  it('close at once if the last message that they wait for is withdrawn', async () => {
    const { session } = await withTab();
    const slow = Object.assign(new Blob(['x']), { arrayBuffer: () => new Promise(() => {}) });
    const abort = new AbortController();
    const sending = session.send(slow, { signal: abort.signal });
    const closed = session.close();
    await settle();
    abort.abort(new Error('withdrawn'));
    await expect(sending).rejects.toThrow('withdrawn');
    expect(await closed).toEqual({ unacknowledged: 3 });
  });

  it('pass timeouts and the trace of the tab on', async () => {
    const { session, host } = await withTab({ traceparent: () => '00-trace' });
    const seen: RequestOptions[] = [];
    host().answer = async function* (_text, options) {
      seen.push(options);
      yield '';
    };
    await session.request('x', { timeoutMs: 50, metadata: { a: 1 } });
    await textOf(session.stream('x', { metadata: { traceparent: 'own' } }));
    expect(seen[0]).toMatchObject({ timeoutMs: 50, metadata: { a: 1, traceparent: '00-trace' } });
    expect(seen[1]).toMatchObject({ metadata: { traceparent: 'own' } });
  });

  it('refuse tensors, wrong options and metadata that cannot be encoded', async () => {
    const { session } = await withTab();
    const tensor = {
      data: new Float32Array(1),
      shape: [1],
      dtype: 'float32',
      payloadType: 'hidden_state',
    } as const;
    await expect(session.sendTensor(tensor)).rejects.toMatchObject({ code: 'unsupported' });
    await expect(session.request('x', { timeoutMs: 0 })).rejects.toMatchObject({ code: 'invalid_option' });
    const metadata = { f: () => {} } as unknown as Record<string, string>;
    await expect(session.request('x', { metadata })).rejects.toMatchObject({ code: 'invalid_argument' });
    await expect(textOf(session.stream('x', { metadata }))).rejects.toMatchObject({
      code: 'invalid_argument',
    });
    await expect(session.request('x', { to: 'no agent' })).rejects.toMatchObject({
      code: 'invalid_argument',
    });
  });

  it('list agents, and watch them', async () => {
    const { session, host } = await withTab();
    const present = [{ id: 'worker-1', state: 'connected', metadata: { skill: 'sums' } }];
    host().answer = async function* () {
      yield JSON.stringify({ present, gone: [], complete: true });
    };
    const agents = await session.agents();
    expect(agents.get('worker-1')?.metadata).toEqual({ skill: 'sums' });
    host().answer = async function* () {
      yield JSON.stringify({ present: [], gone: ['worker-1'], complete: true });
    };
    for await (const { type } of agents) {
      expect(type).toBe('left');
      break;
    }
  });

  it('all get the one-way messages and events of the session', async () => {
    const origin = originOf();
    const [one, two] = [await origin.open(), await origin.open()];
    const states: string[] = [];
    two.session.on('state', (state) => states.push(state));
    for (const text of ['a', 'b']) origin.session.mailbox.push(messageOf(text));
    for (const { session } of [one, two]) {
      const texts: string[] = [];
      for await (const message of session) if (texts.push(message.text) === 2) break;
      expect(texts).toEqual(['a', 'b']);
    }
    origin.session.change('suspended');
    await settle();
    expect(states).toEqual(['suspended']);
    expect(one.session.state).toBe('suspended');
  });

  it('end with the session, with its error', async () => {
    const origin = originOf();
    const [one, two] = [await origin.open(), await origin.open()];
    const reads = [one, two].map(({ session }) => textOf(session));
    origin.session.change('closed');
    origin.session.mailbox.end(new ProtocolError('forbidden', 'out', { side: 'remote' }));
    for (const { status, ...read } of await Promise.allSettled(reads)) {
      expect(status).toBe('rejected');
      expect(read).toMatchObject({ reason: { code: 'forbidden', side: 'remote' } });
    }
    expect(one.session.state).toBe('closed');
    await expect(one.session.send('x')).rejects.toMatchObject({ code: 'session_closed' });
  });

  it('learn why the server has closed it, and close it themselves without a reason', async () => {
    const origin = originOf();
    const [one, two] = [await origin.open(), await origin.open()];
    await two.session.close();
    expect(await two.session.closed).toEqual({
      code: undefined,
      reason: '',
      side: 'local',
      error: undefined,
    });
    const end = { code: 'kicked', reason: 'spam', side: 'remote', error: undefined } as const;
    origin.session.end = end;
    origin.session.change('closed');
    origin.session.mailbox.end(undefined);
    expect(await one.session.closed).toEqual(end);
  });

  it('fail to open with the error of the session, all of them', async () => {
    const origin = originOf({
      failure: new ProtocolError('rejected', 'no', { reject: { code: 'X', message: 'no' } }),
    });
    const attempts = [origin.create().open(), origin.create().open()];
    for (const { status, ...attempt } of await Promise.allSettled(attempts)) {
      expect(status).toBe('rejected');
      expect(attempt).toMatchObject({ reason: { code: 'rejected', reject: { code: 'X', message: 'no' } } });
    }
  });
});

describe('a host that goes away', () => {
  it('fails what is under way with session_lost, and the next one takes its place', async () => {
    const origin = originOf();
    const { session } = await origin.open();
    const states: string[] = [];
    session.on('state', (state) => states.push(state));
    const resets: unknown[] = [];
    session.on('reset', (reset) => resets.push(reset));
    origin.session.answer = async function* () {
      yield 'first';
      await new Promise(() => {});
    };
    const read = session[Symbol.asyncIterator]().next();
    const reply = textOf(session.stream('x'));
    await settle();
    const former = origin.hubs;
    origin.hubs = origin.createHubs();
    former.abandon();
    await expect(reply).rejects.toMatchObject({ code: 'session_lost' });
    await settle();
    await origin.clock.advance(1);
    expect(states).toEqual(['connecting', 'established']);
    expect(resets).toEqual([
      {
        code: 'session_lost',
        reason: expect.any(String),
        notSent: [],
        unknown: [{ kind: 'request', streamId: 7 }],
      },
    ]);
    expect(origin.sessions.length).toBe(2);
    expect((await session.request('again')).text).toBe('re: again');
    // The reader continues with the next host.
    origin.sessions[1]?.mailbox.push(messageOf('to the reader'));
    expect((await read).value?.text).toBe('to the reader');
  });

  it.each([true, false])('is replaced if it crashes before it has answered (locks: %s)', async (hasLocks) => {
    const origin = originOf({ hasLocks });
    origin.reachable = new Promise(() => {});
    const tab = origin.create();
    const opened = tab.open();
    await settle();
    expect(origin.opened.length).toBe(1);
    const [host] = origin.pipes;
    host?.close();
    const crash = origin.crashHost;
    origin.hubs = origin.createHubs();
    origin.reachable = Promise.resolve();
    crash();
    await settle();
    await origin.clock.advance(hasLocks ? 1 : SILENCE_MS + 2 * BEAT_MS);
    await opened;
    expect((await tab.session.request('x')).text).toBe('re: x');
  });

  it('fails an attempt to open with reconnect: false if it crashes before it has answered', async () => {
    const origin = originOf();
    origin.reachable = new Promise(() => {});
    const opened = expect(origin.open({ backoff: undefined })).rejects.toMatchObject({
      code: 'session_lost',
    });
    await settle();
    origin.crashHost();
    await opened;
  });

  it('is left if something of it cannot be read', async () => {
    const origin = originOf();
    const { session } = await origin.open();
    const [host] = origin.pipes;
    const lost = new Promise((resolve) => session.on('reset', resolve));
    host?.post(null);
    expect(await lost).toMatchObject({ reason: expect.stringContaining('host') });
    await settle();
    await origin.clock.advance(1);
    // The only tab has left the first one.
    expect(origin.session.closes).toBe(1);
    expect((await session.request('x')).text).toBe('re: x');
  });

  it('ends the session for good with reconnect: false', async () => {
    const origin = originOf();
    const { session } = await origin.open({ backoff: undefined });
    const read = textOf(session);
    origin.hubs.abandon();
    await expect(read).rejects.toMatchObject({ code: 'session_lost' });
    expect(session.state).toBe('closed');
  });
});

describe('the credential', () => {
  it('is asked for in a tab, the next one if the first is gone', async () => {
    const origin = originOf();
    const askToken = async () => 'fresh';
    const asked = { askToken, firstToken: 'first' };
    await origin.open({ ...asked, askToken: () => Promise.reject(new Error('logged out')) });
    await origin.open(asked);
    const [, context] = origin.opened[0] ?? expect.fail('nothing was opened');
    expect(await context.askToken?.()).toBe('first');
    expect(await context.askToken?.()).toBe('fresh');
    expect(origin.lines).toContainEqual(expect.objectContaining({ event: 'token.failed' }));
  });

  it('counts if it comes after its time, once the tab is asked again', async () => {
    const origin = originOf();
    const answers: ((token: string) => void)[] = [];
    const askToken = () => new Promise<string>((resolve) => answers.push(resolve));
    await origin.open({ askToken, firstToken: 'first' });
    const [, context] = origin.opened[0] ?? expect.fail('nothing was opened');
    await context.askToken?.();
    const late = expect(context.askToken?.()).rejects.toMatchObject({ code: 'timeout' });
    await settle();
    await origin.clock.advance(10_000);
    await late;
    const again = context.askToken?.();
    await settle();
    expect(answers.length).toBe(2);
    answers[0]?.('late');
    expect(await again).toBe('late');
    // The second call answers nothing that is asked later.
    answers[1]?.('too late');
    await settle();
    const next = context.askToken?.();
    await settle();
    answers[2]?.('next');
    expect(await next).toBe('next');
  });

  it('is asked for again if the tab looks for another host and gets no answer, and a late answer counts', async () => {
    const origin = originOf();
    const answers: ((token: string) => void)[] = [];
    const askToken = () => new Promise<string>((resolve) => answers.push(resolve));
    const { session } = await origin.open({ askToken, firstToken: 'first' });
    const former = origin.hubs;
    origin.hubs = origin.createHubs();
    former.abandon();
    await settle();
    await origin.clock.advance(4_999);
    expect([answers.length, origin.lines]).toEqual([1, []]);
    await origin.clock.advance(5_001);
    expect(answers.length).toBe(3);
    expect(origin.lines).toEqual([{ event: 'token.failed' }, { event: 'token.failed' }]);
    answers[1]?.('late');
    await settle();
    expect(session.state).toBe('established');
    const [, context] = origin.opened[1] ?? expect.fail('nothing was opened');
    expect(await context.askToken?.()).toBe('late');
    await origin.clock.advance(60_000);
    expect(answers.length).toBe(3);
  });

  it('is asked for no more by a tab that has left', async () => {
    const origin = originOf();
    let asked = 0;
    const askToken = () => {
      asked++;
      return new Promise<string>(() => {});
    };
    const { session } = await origin.open({ askToken, firstToken: 'first' });
    origin.hubs.abandon();
    await settle();
    await session.close();
    await origin.clock.advance(60_000);
    expect([asked, origin.lines]).toEqual([1, []]);
  });

  it('is final if it is not a function', async () => {
    const origin = originOf();
    await origin.open({ firstToken: 'fixed' });
    expect(origin.opened[0]?.[0].token).toBe('fixed');
    expect(origin.opened[0]?.[1].askToken).toBeUndefined();
  });
});

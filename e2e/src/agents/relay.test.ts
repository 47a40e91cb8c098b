import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Message, Session, Undelivered } from '@parlance/client';
import { LinkKind, loadEncoding, type ProtocolError, RequestError } from '@parlance/protocol';
import { agents, type RelayQuestion, without } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { failure, greet } from '../kit/peers.js';
import { createAgents, nextMessage } from './agents.js';

/** Agents that find each other and exchange messages through a server, over real sockets. */

const benches = createAgents();
afterEach(() => benches[Symbol.asyncDispose]());
const { serve, closeLast } = benches;

describe('a message to an agent', () => {
  it('arrives only there, with the name of its sender', async () => {
    const server: string[] = [];
    const { agent } = await serve({
      onSession: async (session) => {
        for await (const message of session) server.push(message.text);
      },
    });
    const [planner, worker, other] = await Promise.all(
      ['planner', 'worker', 'other'].map((name) => agent(name)),
    );
    const elsewhere: string[] = [];
    void (async () => {
      for await (const message of other as Session) elsewhere.push(message.text);
    })().catch(() => {});
    await planner?.send('hello', { to: 'worker' });
    const message = await nextMessage(worker as Session);
    expect([message.text, message.from]).toEqual(['hello', 'planner']);
    await worker?.send('and to you', { to: message.from });
    expect((await nextMessage(planner as Session)).text).toBe('and to you');
    await pause(20);
    expect([server, elsewhere]).toEqual([[], []]);
  });

  it('that cannot be decoded for an agent with another codec is reported', async () => {
    const { agent, port } = await serve();
    await agent('plain', { algorithms: ['NONE'], onRequest: (request) => request.text });
    const peer = await greet(`ws://127.0.0.1:${port}/session`, {
      auth: { token: 'acme/raw' },
      extensions: { link: '{}', agents: '{}' },
    });
    peer.send(Uint8Array.of(0x10 | LinkKind.ALIAS, 0, ...new TextEncoder().encode('plain')));
    // Addressed, with token IDs whose last one is truncated.
    peer.send(Uint8Array.of(0x10 | LinkKind.REQUEST, 1, 0x41, 0, 0x80));
    await expect
      .poll(() =>
        peer.received.filter((frame) => frame[0] === (0x10 | LinkKind.ERROR)).map((frame) => String(frame)),
      )
      .toEqual([expect.stringContaining('truncated')]);
    peer.socket.close();
  });

  it('that streams tokens to one without them fails if they end inside a character', async () => {
    const { agent } = await serve();
    const encoding = await loadEncoding('CL100K_BASE');
    const [half = 0] = encoding.encode('\u{1f9d9}');
    await agent('worker', {
      algorithms: ['TOKEN_NATIVE'],
      async *onRequest() {
        yield { tokens: [...encoding.encode('a wizard: '), half] };
      },
    });
    const plain = await agent('plain', { algorithms: ['NONE'] });
    const texts: string[] = [];
    const reading = (async () => {
      for await (const part of plain.stream('who is it?', { to: 'worker' })) texts.push(part.text);
    })();
    await expect(reading).rejects.toMatchObject({ code: 'bad_utf8' });
    expect(texts.join('')).toBe('a wizard: ');
  });

  it('carries the authenticated name, regardless of the name in HELLO', async () => {
    const { agent } = await serve();
    const worker = await agent('worker');
    const liar = await agent('acme/liar', { agentId: 'planner' });
    await liar.send('I am the planner', { to: 'worker' });
    expect((await nextMessage(worker)).from).toBe('liar');
  });

  it.each(['M2M', 'TOKEN_NATIVE', 'BROTLI', 'NONE'] as const)(
    'passes as it is where both sessions have %s',
    async (algorithm) => {
      const { agent, server } = await serve();
      const [planner, worker] = [await agent('planner'), await agent('worker')];
      const text = JSON.stringify({
        model: 'gpt-4o',
        messages: [{ role: 'user', content: 'Grüße, 世界!'.repeat(9) }],
      });
      await planner.send(text, { to: 'worker', algorithm });
      const message = await nextMessage(worker);
      expect([message.text, message.algorithm]).toEqual([text, algorithm]);
      expect(server.relayStats()).toEqual({ forwarded: 1, recoded: 0, refused: 0, unknown: 0 });
    },
  );

  it('is recoded if the target lacks its codec, or has other tokens', async () => {
    const { agent, server } = await serve();
    const planner = await agent('planner', { encodings: ['CL100K_BASE'] });
    const plain = await agent('plain', { algorithms: ['NONE'] });
    const tokens = await agent('tokens', {
      encodings: ['O200K_BASE'],
      algorithms: ['TOKEN_NATIVE'],
      extensions: { context: false },
    });
    const text = 'The same words are other tokens in another vocabulary. 👩‍👩‍👧';
    for (const target of ['plain', 'tokens']) {
      await planner.send(text, { to: target, algorithm: 'TOKEN_NATIVE' });
    }
    expect((await nextMessage(plain)).text).toBe(text);
    const message = await nextMessage(tokens);
    expect([message.text, message.algorithm]).toEqual([text, 'TOKEN_NATIVE']);
    expect(server.relayStats()).toMatchObject({ forwarded: 0, recoded: 2 });
  });

  it('is decoded if it was coded in context, and never coded so between principals', async () => {
    const { agent, server } = await serve({ features: [agents({ authorize: () => true })] });
    const planner = await agent('planner');
    const [near, far] = [await agent('near'), await agent('other/far')];
    const elsewhere = await foreign(planner);
    const text = JSON.stringify({
      model: 'm',
      messages: [{ role: 'user', content: 'again and '.repeat(90) }],
    });
    for (const target of ['near', elsewhere, 'near', elsewhere])
      await planner.send(text, { to: target, algorithm: 'CONTEXT' });
    const read = async (session: Session) => {
      const messages: Message[] = [];
      for await (const message of session) if (messages.push(message) === 2) break;
      return messages.map((message) => [message.text === text, message.algorithm === 'CONTEXT']);
    };
    expect((await read(near)).at(-1)).toEqual([true, true]);
    expect(await read(far)).toEqual([
      [true, false],
      [true, false],
    ]);
    expect(server.relayStats()).toMatchObject({ forwarded: 0, recoded: 4 });
  });

  it('is reported if there is no agent of that name, or it may not be reached', async () => {
    const { agent } = await serve();
    const [planner] = [await agent('planner'), await agent('other/stranger')];
    const reports: Undelivered[] = [];
    planner.on('undelivered', (report) => reports.push(report));
    await planner.send('1', { to: 'absent' });
    await planner.send('2', { to: 'stranger' });
    await planner.send('3', { to: 'absent' });
    await expect.poll(() => reports).toHaveLength(3);
    const code = 'unknown_agent';
    expect(reports).toEqual([
      { to: 'absent', outcome: 'not_sent', code, first: 1, count: 1 },
      { to: 'stranger', outcome: 'not_sent', code, first: 1, count: 1 },
      { to: 'absent', outcome: 'not_sent', code, first: 2, count: 1 },
    ]);
  });

  it('waits for an agent whose connection is lost', async () => {
    const { agent, port } = await serve();
    const proxy = await createCuttingProxy(port);
    closeLast(proxy);
    const planner = await agent('planner');
    const worker = await agent('worker', {}, proxy.port);
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => worker.state).toBe('suspended');
    for (let i = 0; i < 50; i++) await planner.send(String(i), { to: 'worker' });
    await pause(20);
    proxy.refuse(false);
    const got: string[] = [];
    for await (const { text } of worker) if (got.push(text) === 50) break;
    expect(got).toEqual(Array.from({ length: 50 }, (_, i) => String(i)));
  });

  it("that was handed over is reported as unknown when its target's session is lost", async () => {
    const { agent, port, server } = await serve();
    const proxy = await createCuttingProxy(port);
    closeLast(proxy);
    const planner = await agent('planner');
    await agent('worker', {}, proxy.port);
    const reports: Undelivered[] = [];
    planner.on('undelivered', (report) => reports.push(report));
    // Written to a connection that accepts everything and answers nothing, and then to none.
    proxy.freeze();
    for (let i = 0; i < 3; i++) await planner.send(String(i), { to: 'worker' });
    await planner.flush();
    await pause(20);
    proxy.refuse(true);
    proxy.cut();
    const suspended = [...server.sessions.values()].find(({ agentId }) => agentId === 'worker');
    await expect.poll(() => suspended?.state).toBe('suspended');
    for (let i = 3; i < 5; i++) await planner.send(String(i), { to: 'worker' });
    await planner.flush();
    await agent('worker');
    await expect.poll(() => reports).toHaveLength(2);
    expect(reports).toEqual([
      { to: 'worker', outcome: 'unknown', code: 'peer_gone', first: 1, count: 3 },
      { to: 'worker', outcome: 'not_sent', code: 'peer_gone', first: 4, count: 2 },
    ]);
    expect(server.relayStats()).toMatchObject({ unknown: 3 });
  });

  it('needs an agent as its sender, and a directory at the server', async () => {
    const { agent } = await serve();
    await agent('worker');
    const nameless = await agent('acme/');
    expect(await failure(nameless.request('x', { to: 'worker' }))).toMatchObject({ code: 'forbidden' });
    expect(await failure(nameless.send('x', { to: 'not a name' }))).toMatchObject({
      code: 'invalid_argument',
    });
    const alone = await serve({ features: [without('agents')] });
    const session = await alone.agent('planner');
    expect(await failure(session.send('x', { to: 'worker' }))).toMatchObject({ code: 'unsupported' });
    expect(await failure(session.agents())).toMatchObject({ code: 'unsupported' });
  });
});

describe('a request to an agent', () => {
  it('is answered by it, with metadata in both directions', async () => {
    const { agent } = await serve();
    const planner = await agent('planner');
    await agent('worker', {
      onRequest: (request, { metadata, setMetadata }) => {
        setMetadata({ took: 3 });
        return `${request.from} asks ${request.text} by ${String(metadata['deadline'])}`;
      },
    });
    const reply = await planner.request('why', { to: 'worker', metadata: { deadline: 5 } });
    expect([reply.text, reply.metadata]).toEqual(['planner asks why by 5', { took: 3 }]);
  });

  it('streams its answer, also in tokens of another vocabulary whose parts split characters', async () => {
    const { agent, server } = await serve();
    const text = 'Größe 👩‍👩‍👧 und 世界, '.repeat(3);
    const planner = await agent('planner', { encodings: ['CL100K_BASE'] });
    const { loadEncoding } = await import('@parlance/protocol');
    const ids = (await loadEncoding('O200K_BASE')).encode(text);
    await agent('worker', {
      encodings: ['O200K_BASE'],
      async *onRequest() {
        for (const id of ids) yield { tokens: [id] };
      },
    });
    let got = '';
    for await (const part of planner.stream('go', { to: 'worker', algorithm: 'NONE' })) got += part.text;
    expect(got).toBe(text);
    expect(server.relayStats().recoded).toBe(ids.length);
  });

  it('passes on how it failed', async () => {
    const { agent } = await serve();
    const planner = await agent('planner');
    await agent('worker', {
      onRequest: (request) => {
        if (request.text === 'own')
          throw new RequestError('no_such_model', 'not here', { data: { have: ['a'] } });
        throw new Error('a secret');
      },
    });
    await agent('mute');
    expect(await failure(planner.request('own', { to: 'worker' }))).toMatchObject({
      code: 'no_such_model',
      message: 'not here',
      data: { have: ['a'] },
    });
    const hidden = await failure(planner.request('x', { to: 'worker' }));
    expect([hidden.code, hidden.message.includes('secret')]).toEqual(['internal', false]);
    expect(await failure(planner.request('x', { to: 'mute' }))).toMatchObject({ code: 'unsupported' });
    expect(await failure(planner.request('x', { to: 'absent' }))).toMatchObject({ code: 'unknown_agent' });
    expect(await failure(planner.request('x', { to: 'planner', timeoutMs: 500 }))).toMatchObject({
      code: 'unsupported',
    });
  });

  it('is cancelled at its target when the requester leaves the loop, or its session', async () => {
    const { agent } = await serve();
    const planner = await agent('planner');
    const aborted: string[] = [];
    await agent('worker', {
      async *onRequest(request, { signal }) {
        signal.addEventListener('abort', () => aborted.push(request.text));
        for (let i = 0; !signal.aborted; i++) {
          yield String(i);
          await pause(1);
        }
      },
    });
    let count = 0;
    for await (const _ of planner.stream('left', { to: 'worker' })) if (++count === 3) break;
    await expect.poll(() => aborted).toEqual(['left']);
    expect(await failure(planner.request('late', { to: 'worker', timeoutMs: 30 }))).toMatchObject({
      code: 'timeout',
    });
    await expect.poll(() => aborted).toEqual(['left', 'late']);
    const going = planner.stream('gone', { to: 'worker' })[Symbol.asyncIterator]();
    await going.next();
    await planner.close();
    await expect.poll(() => aborted).toEqual(['left', 'late', 'gone']);
  });

  it('ends with peer_gone when its target leaves in the middle', async () => {
    const { agent } = await serve();
    const planner = await agent('planner');
    const worker = await agent('worker', {
      async *onRequest() {
        yield 'one';
        await new Promise(() => {});
      },
    });
    const parts: string[] = [];
    const reading = (async () => {
      for await (const part of planner.stream('x', { to: 'worker' })) {
        parts.push(part.text);
        void worker.close();
      }
    })();
    expect(await failure(reading)).toMatchObject({ code: 'peer_gone', side: 'remote' });
    expect(parts).toEqual(['one']);
  });

  it('carries a tensor, which its target verifies', async () => {
    const { agent, server } = await serve();
    const [planner, worker] = [await agent('planner'), await agent('worker')];
    const data = Float32Array.from({ length: 100_000 }, (_, i) => Math.sin(i));
    const sending = planner.sendTensor(
      { data, shape: [100_000], dtype: 'float32', payloadType: 'hidden_state' },
      { to: 'worker' },
    );
    const { tensor, from } = await nextMessage(worker);
    await sending;
    expect([from, Buffer.compare(Buffer.from(tensor?.data ?? []), Buffer.from(data.buffer))]).toEqual([
      'planner',
      0,
    ]);
    // The tensor and its confirmation.
    expect(server.relayStats()).toMatchObject({ forwarded: 2, recoded: 0 });
  });
});

describe('the policy', () => {
  it('is asked with both parties, the kind and the header of an M2M body', async () => {
    const questions: RelayQuestion[] = [];
    const { agent } = await serve({
      features: [
        agents({
          authorize: (question) => {
            if (question.kind === 'list') return true;
            questions.push({ ...question, header: question.header });
            return question.kind !== 'tensor';
          },
        }),
      ],
    });
    const planner = await agent('acme/planner');
    await agent('other/worker', { onRequest: () => 'done' });
    const chat = JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'system', content: 'x' }] });
    const worker = await foreign(planner);
    await planner.request(chat, { to: worker, algorithm: 'M2M' });
    await planner.request('plain', { to: worker, algorithm: 'NONE' });
    const tensor = {
      data: Float32Array.of(1),
      shape: [1],
      dtype: 'float32',
      payloadType: 'hidden_state',
    } as const;
    expect(await failure(planner.sendTensor(tensor, { to: worker }))).toMatchObject({ code: 'forbidden' });
    const from = { id: 'planner', principal: 'acme' };
    const to = { id: 'worker', principal: 'other' };
    expect(questions).toMatchObject([
      { from, to, kind: 'request', header: { model: 'gpt-4o', roles: ['system'] } },
      { from, to, kind: 'request', header: undefined },
      { from, to, kind: 'tensor' },
    ]);
  });

  it('denies across principals by default, and if it throws', async () => {
    const { agent } = await serve();
    const planner = await agent('planner');
    await agent('other/worker', { onRequest: () => 'never' });
    expect(await failure(planner.request('x', { to: 'worker' }))).toMatchObject({ code: 'unknown_agent' });
    const throwing = await serve({
      features: [
        agents({
          authorize: ({ kind }) => {
            if (kind === 'list') return true;
            throw new Error('broken');
          },
        }),
      ],
    });
    const asker = await throwing.agent('planner');
    await throwing.agent('worker', { onRequest: () => 'never' });
    expect(await failure(asker.request('x', { to: 'worker' }))).toMatchObject({ code: 'forbidden' });
  });

  it('may choose the agent by the model of a request', async () => {
    const { agent } = await serve({
      features: [
        agents({
          route: (to, { header }) =>
            to === 'any'
              ? header?.schema === 'request' && header.model === 'gpt-4o'
                ? 'large'
                : 'small'
              : to,
        }),
      ],
    });
    const planner = await agent('planner');
    await agent('large', { onRequest: () => 'large' });
    await agent('small', { onRequest: () => 'small' });
    const ask = async (model: string) =>
      (await planner.request(JSON.stringify({ model, messages: [] }), { to: 'any', algorithm: 'M2M' })).text;
    expect([await ask('gpt-4o'), await ask('other')]).toEqual(['large', 'small']);
  });
});

/** The address of the one agent of another principal that a session sees. */
async function foreign(session: Session): Promise<string> {
  const [agent, ...more] = (await session.agents()).list.filter(({ address }) => address.startsWith('~'));
  expect(more).toEqual([]);
  return agent?.address ?? '';
}

describe('an agent of another principal', () => {
  it('has an address if it is visible, which names it in both directions', async () => {
    const { agent } = await serve({ features: [agents({ authorize: () => true })] });
    const planner = await agent('acme/planner-of-acme');
    const worker = await agent('other/worker-of-other', { onRequest: (request) => String(request.from) });
    const address = await foreign(planner);
    const listed = (await planner.agents()).get(address);
    expect(listed).toMatchObject({ id: address, address, state: 'connected' });
    expect(JSON.stringify((await planner.agents()).list)).not.toContain('worker-of-other');
    // Its ID reaches no agent: the sender's principal has none of that name.
    expect(await failure(planner.request('x', { to: 'worker-of-other' }))).toMatchObject({
      code: 'unknown_agent',
    });
    const own = await foreign(worker);
    expect((await planner.request('who am I', { to: address })).text).toBe(own);
    await planner.send('hello', { to: address });
    const message = await nextMessage(worker);
    expect([message.text, message.from]).toEqual(['hello', own]);
    await worker.send('and to you', { to: message.from });
    expect(await nextMessage(planner)).toMatchObject({ text: 'and to you', from: address });
    const tensor = {
      data: Float32Array.of(1),
      shape: [1],
      dtype: 'float32',
      payloadType: 'hidden_state',
    } as const;
    await planner.sendTensor(tensor, { to: address });
    await worker.close();
    const report = new Promise<Undelivered>((resolve) => planner.on('undelivered', resolve));
    await planner.send('gone', { to: address });
    expect(await report).toEqual({
      to: address,
      outcome: 'not_sent',
      code: 'unknown_agent',
      first: 2,
      count: 1,
    });
  });

  it('keeps its address when it returns, and shares it with no other agent', async () => {
    const { agent } = await serve({ features: [agents({ authorize: () => true })] });
    const planner = await agent('acme/planner');
    const worker = await agent('other/worker', { onRequest: () => 'first' });
    const address = await foreign(planner);
    await worker.close();
    const stranger = await agent('third/worker', { onRequest: () => 'stranger' });
    expect(await foreign(planner)).not.toBe(address);
    await stranger.close();
    await agent('other/worker', { onRequest: () => 'second' });
    expect(await foreign(planner)).toBe(address);
    expect((await planner.request('who', { to: address })).text).toBe('second');
    expect(address).toMatch(/^~[A-Za-z0-9_-]{43}$/);
    const elsewhere = await serve({ features: [agents({ authorize: () => true })] });
    const other = await elsewhere.agent('acme/planner');
    await elsewhere.agent('other/worker');
    expect(await foreign(other)).not.toBe(address);
  });

  it('does not exist for an agent that may not see it, by any name', async () => {
    const { agent } = await serve({
      features: [agents({ authorize: ({ from }) => from.principal === 'acme' })],
    });
    const [planner, outsider] = [await agent('acme/planner'), await agent('third/outsider')];
    await agent('other/worker', { onRequest: () => 'done' });
    const worker = (await planner.agents()).list.map(({ address }) => address);
    expect(worker).toHaveLength(2);
    for (const to of [...worker, 'worker', 'planner', '~made-up'])
      expect(await failure(outsider.request('x', { to }))).toMatchObject({ code: 'unknown_agent' });
    expect((await outsider.agents()).list).toEqual([]);
  });

  it('is reached by a route that names principal and ID', async () => {
    const routes: Record<string, unknown> = {
      service: { principal: 'other', id: 'worker' },
      'by-name': 'worker',
      nowhere: { principal: 'other', id: 'absent' },
      wrong: { principal: 'other' },
    };
    const route = (to: string) => (routes[to] ?? to) as string;
    const { agent } = await serve({ features: [agents({ route })] });
    const planner = await agent('acme/planner');
    await agent('other/worker', { onRequest: (request) => `done for ${request.from?.[0]}` });
    expect((await planner.request('x', { to: 'service' })).text).toBe('done for ~');
    for (const to of ['by-name', 'worker', 'nowhere', 'wrong'])
      expect(await failure(planner.request('x', { to }))).toMatchObject({ code: 'unknown_agent' });
    expect((await planner.agents()).list).toEqual([]);

    const asked: string[] = [];
    const decided = await serve({
      features: [
        agents({
          route,
          authorize: ({ to, kind }) => {
            asked.push(`${kind} ${to.principal}/${to.id}`);
            return kind === 'list';
          },
        }),
      ],
    });
    const asker = await decided.agent('acme/planner');
    await decided.agent('other/worker', { onRequest: () => 'never' });
    expect(await failure(asker.request('x', { to: 'service' }))).toMatchObject({ code: 'forbidden' });
    expect(asked).toEqual(['list other/worker', 'request other/worker']);
  });
});

describe('an agent ID', () => {
  it('is taken over by a newer session of the same principal', async () => {
    const { agent } = await serve();
    const planner = await agent('planner');
    const older = await agent('worker', { onRequest: () => 'older' });
    const ended = new Promise<ProtocolError>((resolve) => older.on('error', resolve));
    await agent('worker', { onRequest: () => 'newer' });
    expect(await ended).toMatchObject({ code: 'taken_over' });
    expect((await planner.request('who', { to: 'worker' })).text).toBe('newer');
  });

  it('belongs to its principal: the same one elsewhere is another agent', async () => {
    const { agent } = await serve({ features: [agents({ onConflict: 'refuse' })] });
    // Applications choose principals, so they may contain any character.
    const principals = [
      'acme',
      'other',
      'a:b',
      'a',
      '{',
      '}',
      '{}',
      'a\0',
      'a\0b',
      'a","',
      '["a"',
      '__proto__',
    ];
    for (const principal of principals) {
      await agent(`${principal}/worker`, { onRequest: () => principal });
      await agent(`${principal}/b`, { onRequest: () => `b of ${principal}` });
    }
    for (const principal of principals) {
      const asker = await agent(`${principal}/asker`);
      expect((await asker.request('who', { to: 'worker' })).text).toBe(principal);
      expect((await asker.request('who', { to: 'b' })).text).toBe(`b of ${principal}`);
      expect((await asker.agents()).list.map(({ id }) => id).sort()).toEqual(['b', 'worker']);
    }
  });

  it('is refused to a second session if the server is configured so', async () => {
    const strict = await serve({ features: [agents({ onConflict: 'refuse' })] });
    const first = await strict.agent('worker');
    expect(await failure(strict.agent('worker'))).toMatchObject({ code: 'rejected', closeCode: 4403 });
    await first.close();
    await strict.agent('worker');
  });

  it('does not exist without authentication', async () => {
    const { createServer } = await import('@parlance/server');
    expect(() => createServer({ features: [agents()] })).toThrow(
      expect.objectContaining({ code: 'invalid_option' }),
    );
  });
});

describe('the directory', () => {
  const identity = (model: string, layers = 32) => ({
    modelFamily: model,
    modelId: `test/${model}`,
    modelHash: model.padEnd(64, '0'),
    hiddenDim: 4096,
    numLayers: layers,
    numKvHeads: 8,
    headDim: 128,
    tokenizerHash: '',
  });

  it('lists visible agents, with their descriptions and the tensor mode of the pair', async () => {
    const { agent } = await serve();
    const planner = await agent('planner', { avp: { identity: identity('llama') } });
    await agent('twin', {
      encodings: ['O200K_BASE'],
      agent: { id: 'twin', metadata: { skill: 'sums' }, model: { identity: identity('llama') } },
    });
    await agent('stranger', { avp: { identity: identity('gemma', 12) } });
    await agent('other/hidden');
    const seen = await planner.agents();
    expect(seen.list.map(({ id }) => id).sort()).toEqual(['stranger', 'twin']);
    expect(seen.get('twin')).toMatchObject({
      state: 'connected',
      encodings: ['O200K_BASE'],
      metadata: { skill: 'sums' },
      identity: { modelFamily: 'llama', hiddenDim: 4096 },
      compatibility: { mode: 'latent', path: 'hash_match' },
    });
    expect(seen.get('stranger')?.compatibility).toEqual({ mode: 'json', mapId: '', path: 'json_fallback' });
  });

  it('answers a session that agreed on TOKEN alone', async () => {
    const { agent } = await serve();
    await agent('worker', { agent: { metadata: { m: 1, messages: [], 'é"': '漢' } } });
    const single = await agent('single', { algorithms: ['TOKEN'], extensions: { context: false } });
    expect((await single.agents()).get('worker')?.metadata).toEqual({ m: 1, messages: [], 'é"': '漢' });
    const report = new Promise<Undelivered>((resolve) => single.on('undelivered', resolve));
    await single.send('{"a":1}', { algorithm: 'TOKEN', to: 'absent' });
    expect(await report).toMatchObject({ to: 'absent', code: 'unknown_agent' });
  });

  it('takes metadata of up to 4 KiB', async () => {
    const { agent } = await serve();
    const note = (size: number) => ({ agent: { metadata: { n: 'x'.repeat(size - '{"n":""}'.length) } } });
    const worker = await agent('worker', note(4096));
    await agent('planner');
    expect(worker.state).toBe('established');
    expect(await failure(agent('other', note(4097)))).toMatchObject({ code: 'invalid_option' });
  });

  it('takes the model from one option only, and refuses unknown ones', async () => {
    const { agent } = await serve();
    const misplaced = { agent: { identity: identity('llama') } } as object;
    expect(await failure(agent('worker', misplaced))).toMatchObject({ code: 'invalid_option' });
  });

  it('is watched once per session, and again when the first reader has left', async () => {
    const { agent } = await serve();
    const planner = await agent('planner');
    const [first, second] = [await planner.agents(), await planner.agents()];
    const reader = first[Symbol.asyncIterator]();
    const change = reader.next();
    await agent('worker');
    expect((await change).value).toMatchObject({ type: 'joined' });
    expect(await failure(second[Symbol.asyncIterator]().next())).toMatchObject({ code: 'too_many_streams' });
    // Another session has a watch of its own.
    const other = (await (await agent('other')).agents())[Symbol.asyncIterator]();
    const seen = other.next();
    await reader.return?.();
    const again = second[Symbol.asyncIterator]();
    const next = again.next();
    await agent('third');
    expect([(await next).done, (await seen).done]).toEqual([false, false]);
    await Promise.all([again.return?.(), other.return?.()]);
  });

  it('reports agents that join, are suspended, return and leave', async () => {
    const { agent, port } = await serve();
    const proxy = await createCuttingProxy(port);
    closeLast(proxy);
    const planner = await agent('planner');
    const changes: string[] = [];
    const agents = await planner.agents();
    (async () => {
      for await (const { type, agent } of agents) changes.push(`${agent.id} ${type} ${agent.state}`);
    })().catch((error: Error) => changes.push(String(error)));
    const worker = await agent('worker', {}, proxy.port);
    await expect.poll(() => changes[0]).toBe('worker joined connected');
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => changes.at(-1)).toBe('worker suspended suspended');
    expect(agents.get('worker')?.state).toBe('suspended');
    proxy.refuse(false);
    await expect.poll(() => changes.at(-1)).toBe('worker changed connected');
    await worker.close();
    await expect.poll(() => changes.at(-1)).toBe('worker left connected');
    expect(agents.list).toEqual([]);
  });

  it('reports only the latest state of each agent to a watcher that was away', async () => {
    const { agent } = await serve({
      limits: {
        sessionsPerMinutePerIp: Infinity,
        connectionsPerMinutePerIp: Infinity,
        failuresPerMinutePerIp: Infinity,
        sessionsPerIp: Infinity,
      },
    });
    const planner = await agent('planner');
    const agents = await planner.agents();
    const reader = agents[Symbol.asyncIterator]();
    /** 4 KB that no codec can shrink much. */
    const noise = () => ({ agent: { metadata: { note: randomBytes(2900).toString('base64') } } });
    const first = reader.next();
    await agent('steady', noise());
    expect((await first).value).toMatchObject({ type: 'joined', agent: { id: 'steady' } });
    // A flood while the watcher does not read: both describe themselves in 4 KB, 200 times.
    for (let round = 0; round < 20; round++) {
      const flood = await Promise.all(Array.from({ length: 10 }, (_, i) => agent(`flood-${i}`, noise())));
      await Promise.all(flood.map((session) => session.close()));
    }
    const last = await agent('last');
    let told = 0;
    while (agents.list.length !== 2 || agents.get('last') === undefined) {
      await reader.next();
      told++;
    }
    await reader.return?.();
    expect(last.state).toBe('established');
    expect(agents.list.map(({ id }) => id).sort()).toEqual(['last', 'steady']);
    // Far fewer than the 400 that happened: unread changes are merged.
    expect(told).toBeLessThan(300);
  });
});

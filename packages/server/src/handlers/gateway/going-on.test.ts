import type { Message, RequestContext } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { createOpenAIGateway } from './openai.js';

/** A node has passed on the beginning of an answer, and died. */

const event = (type: string, number: number, more: object = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number, ...more })}`;
const created = (more: object = {}) =>
  event('response.created', 0, { response: { id: 'resp_1', background: true, ...more } });
const delta = (number: number) => event('response.output_text.delta', number, { delta: `word ${number}` });

async function goOn(said: readonly string[], respond: () => Response) {
  const asked: string[] = [];
  const gateway = createOpenAIGateway({
    baseUrl: 'http://upstream.test/v1',
    apiKey: 'sk-secret',
    fetch: async (url, init) => {
      asked.push(`${init?.method} ${url} ${new Headers(init?.headers).get('authorization')}`);
      return respond();
    },
  });
  const policies: string[] = [];
  const context = {
    session: { principal: 'ann', id: 'sess_one', negotiated: { limits: {}, maxPayloadSize: 0 } },
    signal: new AbortController().signal,
    metadata: {},
    setMetadata: () => policies.push('head'),
    attempt: 2,
    yielded: said.map((text) => ({ text })),
    ifProcessDies: (policy: string) => policies.push(policy),
  } as unknown as RequestContext;
  const parts: string[] = [];
  let failure: unknown;
  try {
    for await (const part of gateway({} as Message, context) as AsyncIterable<string>) parts.push(part);
  } catch (error) {
    failure = error;
  }
  return { asked, parts, failure, policies, totals: gateway.usage };
}

const stream = (...events: readonly string[]) =>
  new Response(events.map((one) => `${one}\n\n`).join(''), {
    headers: { 'content-type': 'text/event-stream' },
  });

describe('an answer whose node has died', () => {
  it('continues after the last recorded event if the upstream works on it in the background', async () => {
    const said = [created(), delta(1), delta(2)];
    const { asked, parts, failure, policies } = await goOn(said, () => stream(delta(3), delta(4)));
    expect(failure).toBe(undefined);
    expect(asked).toEqual([
      'GET http://upstream.test/v1/responses/resp_1?stream=true&starting_after=2 Bearer sk-secret',
    ]);
    expect(parts).toEqual([delta(3), delta(4)]);
    expect(policies).toEqual(['again']);
  });

  it.each([
    ['a chat completion', [JSON.stringify({ id: 'chatcmpl-1', choices: [] })]],
    ['a response that is not in the background', [created({ background: false }), delta(1)]],
    ['one of which nothing is recorded', []],
    ['one whose ID is not one', [created({ id: '../files' }), delta(1)]],
  ])('is cut short, and not asked for again, for %s', async (_what, said) => {
    const { asked, parts, failure } = await goOn(said, () => stream(delta(3)));
    expect(failure).toMatchObject({
      code: 'interrupted',
      message: 'cut short: the server was restarted',
      retryable: true,
    });
    expect([asked, parts]).toEqual([[], []]);
  });

  it('is interrupted if the upstream has forgotten it', async () => {
    const { failure } = await goOn([created(), delta(1)], () => new Response('{}', { status: 404 }));
    expect(failure).toMatchObject({ code: 'upstream_interrupted', message: expect.stringContaining('404') });
  });
});

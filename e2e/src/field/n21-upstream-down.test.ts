import { connect } from '@parlance/client';
import { createServer, type ServerOptions } from '@parlance/server';
import { createOpenAIGateway, type OpenAIGatewayOptions } from '@parlance/server/openai';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';

/** An upstream that is down is in the log of the server, if the gateway has none of its own. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

/** Nothing listens there. */
const DOWN = 'http://127.0.0.1:1/v1';

function record() {
  const lines: (readonly [level: string, fields: Record<string, unknown>, message: string])[] = [];
  const at = (level: string) => (fields: object, message: string) =>
    void lines.push([level, { ...fields }, message]);
  const logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  const failures = () => lines.filter(([, { event }]) => event === 'gateway.failed');
  return { logger, failures };
}

async function ask(options: ServerOptions, gateway: Partial<OpenAIGatewayOptions>, body = '{"model":"m"}') {
  const server = createServer({ onRequest: createOpenAIGateway({ baseUrl: DOWN, ...gateway }), ...options });
  open.push(server);
  const { url } = await server.listen();
  const session = await connect(url, { WebSocket });
  open.push(session);
  const headers = { 'content-type': 'application/json' };
  return await session.fetch('http://session/v1/chat/completions', { method: 'POST', body, headers });
}

describe('an upstream that is down', () => {
  it('is a line of the log of the server, which says why', async () => {
    const { logger, failures } = record();
    expect((await ask({ logger }, {})).status).toBe(502);
    const [[level, fields, message] = [], ...more] = failures();
    expect(more).toEqual([]);
    expect(level).toBe('warn');
    expect(fields).toMatchObject({ code: 'upstream_unreachable', session: expect.any(String) });
    expect(message).toContain('the upstream cannot be reached');
  });

  it('is reported to onError', async () => {
    const errors: string[] = [];
    await ask({ onError: (_error, { event }) => void errors.push(event) }, {});
    expect(errors).toEqual(['gateway.failed']);
  });

  it('is in the log of the gateway alone if it has one', async () => {
    const own = record();
    const { logger, failures } = record();
    await ask({ logger }, { logger: own.logger });
    expect(own.failures()).toHaveLength(1);
    expect(failures()).toEqual([]);
  });
});

it('a mistake of the client is no warning', async () => {
  const { logger, failures } = record();
  expect((await ask({ logger }, { models: ['other'] })).status).toBe(403);
  expect(failures().map(([level]) => level)).toEqual(['debug']);
});

it('the target of a redirect that is not followed is in the log, without its query', async () => {
  const { logger, failures } = record();
  const location = 'https://other.example/v1/x?key=1';
  const fetch = async () => new Response(null, { status: 307, headers: { location } });
  const response = await ask({ logger }, { baseUrl: 'https://api.example/v1', fetch });
  expect(response.status).toBe(502);
  expect(await response.text()).not.toContain('other.example');
  expect(failures()[0]?.[1]).toMatchObject({
    code: 'upstream_unusable',
    target: 'https://other.example/v1/x',
  });
});

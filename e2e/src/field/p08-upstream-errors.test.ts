import { connect } from '@parlance/client';
import { admin } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type AdminState, figuresOf } from '../../../packages/server/src/operate/admin/figures.js';
import { type OpenAIUpstream, startOpenAIUpstream } from '../kit/openai-upstream.js';
import { createPeers } from '../kit/peers.js';

/** The view of an operator on a gateway whose upstream fails half of the time. */

const TOKEN = 'an-operator-of-this-gateway';
const peers = createPeers();
let upstream: OpenAIUpstream;
beforeEach(async () => {
  upstream = await startOpenAIUpstream();
});
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  await upstream.stop();
});

describe('a gateway with an upstream that fails', () => {
  it('has failed as often as its clients have seen errors, and its first parts are those of answers', async () => {
    const served = await peers.serve({
      onRequest: createOpenAIGateway({ baseUrl: upstream.baseUrl, apiKey: 'key', maxRetries: 0 }),
      features: [admin({ token: TOKEN, mode: 'read' })],
    });
    const session = peers.use(await connect(served.url, { WebSocket }));
    const look = async () => {
      const response = await fetch(`${served.server.admin?.url}admin/state`, {
        headers: { authorization: `Bearer ${TOKEN}` },
      });
      return (await response.json()) as AdminState;
    };
    const ask = async (model: string, stream = true) => {
      const body = JSON.stringify({ model, stream, messages: [{ role: 'user', content: 'Hello?' }] });
      const response = await session.fetch('http://session/v1/chat/completions', { method: 'POST', body });
      await response.text();
      return response.status;
    };
    const before = await look();
    for (let i = 0; i < 4; i++) expect(await ask('gpt-4o', i % 2 === 0)).toBe(200);
    expect([await ask('status-500'), await ask('status-401', false), await ask('status-429')]).toEqual([
      500, 401, 429,
    ]);
    // Of a stream that breaks, the status has come before.
    await expect(ask('dies-in-stream')).rejects.toThrow();
    const state = await look();
    const figures = figuresOf(state, before);
    expect(figures.failed).toBe(0.5);
    const count = (name: string) => (state.metrics[name] ?? []).reduce((sum, { value }) => sum + value, 0);
    // Four answers, and the beginning of the one that broke.
    expect(count('request_first_part_seconds_count')).toBe(5);
  });
});

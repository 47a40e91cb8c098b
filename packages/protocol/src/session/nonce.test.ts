import { beforeEach, describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { plainBody } from '../codec/body.js';
import { decodeControl } from '../control/envelope.js';
import type { AcceptPayload, HelloPayload } from '../control/messages.js';
import { decodeLinkFrame } from '../link/frame.js';
import { TEST_CAPABILITIES } from '../testing/simulation.js';
import { createSession } from './create.js';
import { createServerSession, restoreSession } from './create-server.js';
import { repeated } from './hello.js';
import type { ServerSessionCore, SessionCore } from './types.js';

/** A HELLO that comes again, between cores whose frames the test carries. */

const ID = 'sess_test';
const NONCE = Uint8Array.from({ length: 16 }, (_, i) => i);
const OPTIONS = {
  subprotocol: Subprotocol.BINARY,
  capabilities: {
    ...TEST_CAPABILITIES,
    extensions: { [Extension.LINK]: '{}', [Extension.RESUME]: '{}', [Extension.MOVE]: '1' },
  },
  limits: resolveLimits(),
  timers: resolveTimers({ resumeWindowMs: 10_000 }),
};
const text = (content: string) => plainBody(new TextEncoder().encode(content));

type Frames = readonly Uint8Array[];

/** All that an end has to send. */
function sentBy(core: SessionCore): Frames {
  const frames: Uint8Array[] = [];
  for (let frame = core.pollTransmit(); frame !== undefined; frame = core.pollTransmit())
    frames.push(frame as Uint8Array);
  return frames;
}
const take = (core: SessionCore, frames: Frames) => {
  for (const frame of frames) core.handleMessage(frame, 0);
};
/** The texts of one-way messages. */
const messagesIn = (frames: Frames) =>
  frames.flatMap((frame) => {
    if ((frame[0] ?? 0) !== 0x10) return [];
    const { body } = decodeLinkFrame(frame) as { body?: { bytes: Uint8Array } };
    return [new TextDecoder().decode(body?.bytes ?? frame.subarray(3))];
  });

const newClient = () => createSession({ ...OPTIONS, role: 'client', nonce: NONCE });
/** The HELLO of a client on a new connection. */
function greetingOf(client: SessionCore): HelloPayload {
  client.handleConnected(0);
  const [frame] = sentBy(client);
  return (decodeControl(frame as Uint8Array) as { payload: HelloPayload }).payload;
}

let server: ServerSessionCore;
let hello: HelloPayload;
/** The frames of the server on its first connection, of which the client reads none. */
let lost: Frames;
beforeEach(() => {
  hello = greetingOf(newClient());
  server = createServerSession({ ...OPTIONS, role: 'server' });
  server.handleConnected(0);
  const [frame] = (() => {
    const client = newClient();
    client.handleConnected(0);
    return sentBy(client);
  })();
  server.handleMessage(frame as Uint8Array, 0);
  server.accept(ID, 0);
  for (const message of ['one', 'two', 'three']) server.channel.send(text(message));
  lost = sentBy(server);
});

const again = (change: Partial<HelloPayload> = {}) =>
  repeated({ ...hello, ...change }, ID, undefined) as HelloPayload;
const check = (given = again(), core = server) => core.checkResume(given, Subprotocol.BINARY);
/** The connection is lost, and the HELLO comes on another one. */
function repeat(core: ServerSessionCore = server): Frames {
  core.handleDisconnected(CloseCode.ABNORMAL, '', 0);
  expect(check(again(), core)).toBeUndefined();
  core.resume(again().resume as NonNullable<HelloPayload['resume']>, 0);
  return sentBy(core);
}
const acceptIn = (frames: Frames) =>
  decodeControl(frames[0] as Uint8Array) as { payload: AcceptPayload; sessionId: string };

describe('a HELLO that comes again', () => {
  it('gets the same answer, and all frames from the first one on', () => {
    expect(messagesIn(lost)).toEqual(['one', 'two', 'three']);
    const first = acceptIn(lost);
    for (let i = 0; i < 3; i++) {
      const frames = repeat();
      expect(acceptIn(frames)).toMatchObject({ sessionId: ID, payload: first.payload });
      expect(first.payload.resume).toMatchObject({ recovered: false, received: 0 });
      expect(messagesIn(frames)).toEqual(['one', 'two', 'three']);
    }
    server.channel.send(text('four'));
    expect(messagesIn(sentBy(server))).toEqual(['four']);
  });

  it('gives a client that has seen nothing a session that works, and can be resumed', () => {
    const client = newClient();
    greetingOf(client);
    take(client, repeat());
    expect([client.state, client.id]).toEqual(['established', ID]);
    client.channel.send(text('hi'));
    take(server, sentBy(client));
    server.handleDisconnected(CloseCode.ABNORMAL, '', 0);
    client.handleDisconnected(CloseCode.ABNORMAL, '', 0);
    const next = greetingOf(client);
    expect(next.nonce).toBeUndefined();
    expect([next.resume?.attempt, check(next)]).toEqual([1, undefined]);
  });

  it('leaves the token of the first ACCEPT valid for a client that has read that one after all', () => {
    const client = newClient();
    greetingOf(client);
    take(client, lost);
    repeat();
    client.handleDisconnected(CloseCode.TIMEOUT, '', 0);
    server.handleDisconnected(CloseCode.ABNORMAL, '', 0);
    const next = greetingOf(client);
    expect([next.resume?.received, check(next)]).toEqual([3, undefined]);
    server.resume(next.resume as NonNullable<HelloPayload['resume']>, 0);
    take(client, sentBy(server));
    expect([client.state, check()]).toEqual(['established', 'stale_attempt']);
  });

  it('is stale once a link frame of the client has arrived', () => {
    expect(server.resumeProof?.isUnseen).toBe(true);
    const client = newClient();
    greetingOf(client);
    take(client, lost);
    client.channel.send(text('hi'));
    take(server, sentBy(client));
    expect([check(), server.resumeProof?.isUnseen]).toEqual(['stale_attempt', false]);
  });

  it('has to make the same offer, with the same agent', () => {
    expect(check(again({ maxPayloadSize: 7 }))).toBe('other_offer');
    expect(check(again({ agentId: 'another' }))).toBe('other_offer');
    expect(check(again({ auth: { token: 'a newer one' } }))).toBeUndefined();
    expect(server.checkResume(again(), Subprotocol.JSON)).toBe('other_offer');
  });

  it('needs the nonce, and continues a session that has moved', () => {
    const nonce = NONCE.map((byte) => byte ^ 1);
    expect(check(again({ nonce }))).toBe('stale_attempt');
    expect(repeated({ ...hello, nonce: undefined }, ID, undefined)).toBeUndefined();
    server.handleDisconnected(CloseCode.ABNORMAL, '', 0);
    // A session moves when its driver knows all that has happened.
    while (server.pollEvent() !== undefined);
    const moved = restoreSession({ ...OPTIONS, role: 'server' }, server.snapshot(0), 0);
    expect(check(again({ nonce }), moved)).toBe('stale_attempt');
    expect(moved.resumeProof?.isUnseen).toBe(true);
    expect(check(again(), moved)).toBeUndefined();
    moved.resume(again().resume as NonNullable<HelloPayload['resume']>, 0);
    expect(messagesIn(sentBy(moved))).toEqual(['one', 'two', 'three']);
  });

  it('says once more why another session was not resumed', () => {
    const copy = repeated(hello, ID, 'no_state') as HelloPayload;
    server.handleDisconnected(CloseCode.ABNORMAL, '', 0);
    server.resume(copy.resume as NonNullable<HelloPayload['resume']>, 0);
    expect(acceptIn(sentBy(server)).payload.resume?.reason).toBe('no_state');
  });
});

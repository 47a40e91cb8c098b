import { Algorithm, Extension, Subprotocol } from '../../packages/protocol/src/base/constants.js';
import { resolveLimits, resolveTimers } from '../../packages/protocol/src/base/limits.js';
import { encodeUtf8 } from '../../packages/protocol/src/base/text.js';
import { plainBody } from '../../packages/protocol/src/codec/body.js';
import { decodeMap } from '../../packages/protocol/src/control/maps.js';
import { CloseReason } from '../../packages/protocol/src/control/messages.js';
import { explainFrame } from '../../packages/protocol/src/inspect/index.js';
import { isCounted, type LinkKind } from '../../packages/protocol/src/link/frame.js';
import { createSession } from '../../packages/protocol/src/session/create.js';
import type { SessionCore, SessionOptions } from '../../packages/protocol/src/session/types.js';
import {
  createSimulation,
  type Simulation,
  TEST_CAPABILITIES,
} from '../../packages/protocol/src/testing/simulation.js';
import { digits, fence } from './markdown.js';

/** Whole sessions, played by the code of both ends. */

const TIME_ORIGIN = 1_700_000_000_000;
/** Milliseconds that a frame is under way. */
const DELAY = 20;

interface Sent {
  readonly at: number;
  readonly isClient: boolean;
  readonly frame: Uint8Array | string;
  readonly connection: number;
}

const capabilities: SessionOptions['capabilities'] = {
  ...TEST_CAPABILITIES,
  algorithms: [Algorithm.NONE],
  encodings: [],
  extensions: {
    [Extension.LINK]: '{"max_streams":128,"message_window":65536,"stream_window":16384}',
    [Extension.RESUME]: '{}',
  },
};

/** A session from HELLO to CLOSE, whose connection is lost in the middle of a reply. */
export function sessionSteps(): string {
  const sent: Sent[] = [];
  let connection = 1;
  const options = { capabilities, timeOrigin: TIME_ORIGIN };
  const simulation: Simulation = createSimulation({
    client: options,
    server: options,
    delayMs: DELAY,
    tamper(frame, from) {
      sent.push({ at: simulation.now, isClient: from === simulation.client, frame, connection });
      return frame;
    },
  });
  const { client, server } = simulation;
  const say = (text: string) => plainBody(encodeUtf8(text));
  simulation.advance(3 * DELAY);
  client.core.channel.send(say('hello'));
  const stream = client.core.channel.request(say('Why is the sky blue?'));
  simulation.advance(DELAY);
  server.core.channel.chunk(stream, say('Rayleigh '));
  simulation.advance(DELAY);
  server.core.channel.chunk(stream, say('scattering'));
  simulation.advance(DELAY / 2);
  const cutAt = simulation.now;
  simulation.cut();
  server.core.channel.chunk(stream, say('.'));
  connection = 2;
  simulation.reconnect();
  simulation.advance(3 * DELAY);
  server.core.channel.end(stream);
  simulation.advance(15 * DELAY);
  client.core.close(CloseReason.NORMAL, '', simulation.now);
  simulation.advance(6 * DELAY);
  if (client.closedWith?.code !== 1000) throw new Error('the session of the example did not close in order');

  const counts = { client: 0, server: 0 };
  const known = new Map<string, number>();
  const lines: string[] = [];
  let before = 1;
  for (const { at, isClient, frame, connection: on } of sent) {
    if (on !== before)
      lines.push(`--------- ${cutAt} ms: the connection is lost; the client opens another one ---------`);
    before = on;
    const isLost = on === 1 && at + DELAY > cutAt;
    lines.push(...lineOf(at, isClient, frame as Uint8Array, isLost));
  }
  lines.push('--------- the client closes the WebSocket with 1000 ---------');
  return fence('text', lines.join('\n'));

  function lineOf(at: number, isClient: boolean, frame: Uint8Array, isLost: boolean): string[] {
    const who = isClient ? 'C → S' : 'S → C';
    const side = isClient ? 'client' : 'server';
    const kind = frame[0] as number;
    let count = '     ';
    if (kind >= 0x10 && kind <= 0x1f && isCounted((kind & 0x0f) as LinkKind)) {
      const bytes = `${side} ${digits(frame)}`;
      const number = known.get(bytes) ?? ++counts[side];
      known.set(bytes, number);
      count = `#${number}`.padEnd(5);
    }
    const note = isLost ? '   (lost)' : '';
    const head = `${String(at).padStart(4)} ms  ${who}  ${count} `;
    if (kind >= 0x80) return [`${head}${text(frame)}${note}`];
    const { summary, label } = explainFrame(frame, { preview: 40 });
    return [`${head}${digits(frame)}${note}`, `${' '.repeat(22)}${label}: ${summary}`];
  }
}

/** A control message as JSON, with tokens and the session ID as short names. */
function text(frame: Uint8Array): string {
  const { type, payload } = decodeMap(frame, 8, 'a control message');
  const fields = JSON.stringify(payload, (key, value) =>
    key === 'token' ? tokenName(String(value)) : value,
  );
  return `${String(type)} ${fields}`;
}

const tokens: string[] = [];
function tokenName(token: string): string {
  if (!tokens.includes(token)) tokens.push(token);
  return `token-${tokens.indexOf(token) + 1}`;
}

/** A session in `m2m.v1.json`. */
export function jsonSession(): string {
  const lines: string[] = [];
  const options = {
    subprotocol: Subprotocol.JSON,
    timeOrigin: TIME_ORIGIN,
    limits: resolveLimits(),
    timers: resolveTimers(),
    capabilities: { ...capabilities, extensions: {} },
  };
  const [client, server] = (['client', 'server'] as const).map((role) =>
    createSession({ ...options, role }),
  ) as [SessionCore, SessionCore];
  function deliver(): void {
    for (let isBusy = true; isBusy; ) {
      isBusy = false;
      for (const [from, to, who] of [
        [client, server, 'C → S'],
        [server, client, 'S → C'],
      ] as const) {
        for (let frame = from.pollTransmit(); frame !== undefined; frame = from.pollTransmit()) {
          lines.push(`${who}  ${String(frame)}`);
          to.handleMessage(frame, 0);
          isBusy = true;
        }
        for (let event = from.pollEvent(); event !== undefined; event = from.pollEvent())
          if (event.type === 'hello') from.accept('sess_0123456789abcdefghij', 0);
      }
    }
  }
  client.handleConnected(0);
  server.handleConnected(0);
  deliver();
  client.channel.send(plainBody(encodeUtf8('hello')));
  deliver();
  client.close(CloseReason.NORMAL, '', 0);
  deliver();
  return fence('text', lines.join('\n'));
}

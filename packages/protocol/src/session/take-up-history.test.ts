import fc from 'fast-check';
import { beforeAll, expect, it } from 'vitest';
import { Extension } from '../base/constants.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { decodeUtf8, encodeUtf8 } from '../base/text.js';
import { BodyCodec, type CodedBody, plainBody } from '../codec/body.js';
import type { ContextEncoder } from '../codec/context/encoder.js';
import {
  createSimulation,
  type End,
  eventsOf,
  type Simulation,
  TEST_CAPABILITIES,
} from '../testing/simulation.js';
import { platform } from '../testing/this-platform.js';

/** Random histories of a session whose page is loaded again at any time, and whose connection is lost in between. */

beforeAll(() => platform.loadZstd());

const OPTIONS = {
  capabilities: {
    ...TEST_CAPABILITIES,
    extensions: {
      [Extension.LINK]: JSON.stringify({ message_window: 3_000, stream_window: 1_500, max_streams: 6 }),
      [Extension.RESUME]: '{}',
      [Extension.REBUILD]: '1',
      [Extension.CONTEXT]: '{"max_bytes":5000,"max_messages":3}',
      [Extension.AGENTS]: '{}',
    },
  },
  limits: resolveLimits({ sessionWindow: 20_000, streamWindow: 4_000, maxMessageSize: 10_000 }),
  timers: resolveTimers({ resumeWindowMs: 60_000 }),
};

const side = fc.constantFrom('page' as const, 'server' as const);
const message = fc.record({
  kind: fc.constant('message' as const),
  side,
  size: fc.oneof(fc.nat(100), fc.nat(2_900)),
  inContext: fc.boolean(),
  address: fc.constantFrom(undefined, undefined, 'one', 'two'),
});
const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: message },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('read' as const), side }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(60) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('request' as const), side }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('answer' as const), side, isLast: fc.boolean() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('reconnect' as const) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('reload' as const), isLost: fc.boolean() }) },
  ),
  { maxLength: 60, size: 'max' },
);
type Step = typeof steps extends fc.Arbitrary<(infer One)[]> ? One : never;

function bodyOf(n: number, size: number, inContext: boolean): CodedBody {
  const content = encodeUtf8(`${n}:${'the words of every message. '.repeat(110).slice(0, size)}`);
  if (!inContext) return plainBody(content);
  return {
    ...plainBody(content),
    deferred: {
      encode(encoder: ContextEncoder, streamId, _kind, isPart) {
        const offer = encoder.code(content, encoder.match(content, streamId, isPart), isPart);
        return { codec: BodyCodec.CONTEXT, bytes: offer.bytes, originalLength: content.length, offer };
      },
    },
  };
}

class History {
  readonly simulation: Simulation = createSimulation({ delayMs: 5, client: OPTIONS, server: OPTIONS });
  readonly server: End = this.simulation.server;
  /** The messages that the server has sent, and those that pages have received. */
  readonly said: string[] = [];
  readonly heard: string[] = [];
  readonly told: string[] = [];
  #next = 0;
  /** How many events of each end were looked at. */
  readonly #seen = new Map<End, number>();
  readonly #unread = new Map<End, number[]>();
  readonly #requests = new Map<End, number[]>();

  constructor() {
    this.simulation.advance(50);
  }

  get page(): End {
    return this.simulation.client;
  }

  run(step: Step): void {
    const { simulation } = this;
    const end = 'side' in step && step.side === 'server' ? this.server : this.page;
    switch (step.kind) {
      case 'message': {
        const body = { ...bodyOf(this.#next++, step.size, step.inContext), address: step.address };
        end.core.channel.send(body);
        if (end === this.server) this.said.push(nameOf(body.bytes, step.address));
        else this.told.push(nameOf(body.bytes, step.address));
        break;
      }
      case 'read':
        this.#read(end);
        break;
      case 'wait':
        simulation.advance(step.ms);
        break;
      case 'request':
        if (end.core.channel.openStreams < 6) end.core.channel.request(bodyOf(this.#next++, 500, true));
        break;
      case 'answer': {
        const streamId = this.#requests.get(end)?.[0];
        if (streamId === undefined) break;
        end.core.channel.chunk(streamId, bodyOf(this.#next++, 300, true));
        if (!step.isLast) break;
        end.core.channel.end(streamId);
        this.#requests.get(end)?.shift();
        break;
      }
      case 'reconnect':
        simulation.cut();
        simulation.reconnect();
        simulation.advance(30);
        break;
      case 'reload':
        this.#reload(step.isLost);
    }
    this.#look();
  }

  /** Reads and waits until nothing is under way. */
  finish(): void {
    for (let round = 0; round < 60; round++) {
      this.simulation.advance(300);
      this.#look();
      for (const end of [this.page, this.server]) this.#read(end);
    }
    this.simulation.advance(1_000);
    this.#look();
  }

  #reload(isLost: boolean): void {
    const { simulation } = this;
    // Messages that the page has received before it goes count.
    simulation.settle();
    this.#look();
    // A page that leaves more than a window unread is refused, which is tested elsewhere.
    this.#read(this.server);
    if (isLost) simulation.cut();
    this.#requests.clear();
    simulation.reload();
    simulation.advance(30);
    expect(eventsOf(this.page, 'takenUp')).toHaveLength(1);
  }

  #look(): void {
    for (const end of [this.page, this.server]) {
      expect(end.events.filter(({ type }) => type === 'ended')).toEqual([]);
      for (const event of end.events.slice(this.#seen.get(end) ?? 0)) {
        if (event.type === 'message') {
          const { content, bytes, address: agent, charge } = event.body;
          const text = nameOf(content ?? bytes, agent);
          (end === this.server ? this.toldTo : this.heard).push(text);
          this.#listOf(this.#unread, end).push(charge);
        } else if (event.type === 'request') {
          end.core.channel.consume(event.streamId, event.body.charge);
          this.#listOf(this.#requests, end).push(event.streamId);
        } else if (event.type === 'part' || event.type === 'response') {
          end.core.channel.consume(event.streamId, event.body.charge);
        }
      }
      this.#seen.set(end, end.events.length);
    }
  }
  readonly toldTo: string[] = [];

  #read(end: End): void {
    for (const charge of this.#listOf(this.#unread, end).splice(0)) end.core.channel.consume(0, charge);
  }

  #listOf(lists: Map<End, number[]>, end: End): number[] {
    const list = lists.get(end) ?? [];
    lists.set(end, list);
    return list;
  }
}

const nameOf = (bytes: Uint8Array, agent: string | undefined) => {
  const text = decodeUtf8(bytes);
  return `${text.slice(0, text.indexOf(':'))} ${text.length} ${agent}`;
};

it('a page and those after it get each message of the server once, in order, and both ends keep the same context', () => {
  let reloads = 0;
  fc.assert(
    fc.property(steps, (history) => {
      const session = new History();
      for (const step of history) session.run(step);
      reloads += history.filter(({ kind }) => kind === 'reload').length;
      session.finish();
      expect(session.heard).toEqual(session.said);
      // Messages that were under way to the server when its page went are lost, and nothing else.
      expect(session.toldTo).toEqual(session.told.filter((text) => session.toldTo.includes(text)));
      expect(new Set(session.toldTo).size).toBe(session.toldTo.length);
      const [page, server] = [session.page.core.channel, session.server.core.channel];
      expect(page.contextUse?.received).toEqual(server.contextUse?.sent);
      expect(page.contextUse?.sent).toEqual(server.contextUse?.received);
      expect([page.framesUnconfirmed, server.framesUnconfirmed]).toEqual([0, 0]);
      expect(session.server.core.queuedBytes).toBe(0);
      expect(session.server.core.channel.framesConfirmed).toBe(page.framesReceived);
      // Nothing that former pages have left behind is kept.
      if (server.openStreams === 0) expect(session.server.core.heldBytes).toBe(0);
    }),
    { numRuns: 150 },
  );
  expect(reloads).toBeGreaterThan(100);
});

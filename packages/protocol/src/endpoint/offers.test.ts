import fc from 'fast-check';
import { beforeAll, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Algorithm, EncodingName, Subprotocol } from '../base/constants.js';
import { type Limits, resolveLimits, resolveTimers } from '../base/limits.js';
import { loadCodecs } from '../codec/load.js';
import { loadEncoding } from '../codec/vocabulary/load.js';
import { createSession } from '../session/create.js';
import type { SessionCore } from '../session/types.js';
import { ManualClock } from '../testing/manual-clock.js';
import { Endpoint } from './endpoint.js';
import { guard } from './guard.js';
import type { ContentScanner, Logger, ScannerHost, Wire } from './ports.js';
import type { RequestHandler } from './requests/responder.js';
import type { Session } from './session.js';

/**
 * Two endpoints with arbitrary offers, limits and windows, whose applications use all features. Their
 * agreement may allow very little, but no call of a driver may throw, and no guard may have to end a session.
 */

interface Offer {
  readonly algorithms: Algorithm[];
  readonly encodings: EncodingName[];
  readonly extensions: Readonly<Record<string, string>>;
  readonly securityScanning: boolean;
  readonly maxPayloadSize: number;
  readonly limits: Limits;
}

const SIZES = [1, 16, 17, 100, 65_536, Infinity];
/** Mostly the default, so that two odd values at a time are rarer than one. */
const seldom = <T>(...odd: readonly T[]): fc.Arbitrary<T | undefined> =>
  fc.oneof(
    { weight: 5, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.constantFrom(...odd) },
  );
const window = seldom(1, 15, 16, 17, 18, 1_000, 65_536, Number.MAX_SAFE_INTEGER);
const size = seldom(...SIZES);
const limits = fc
  .record({
    maxMessageSize: size,
    maxTransferSize: size,
    maxMetadataSize: size,
    sessionWindow: size,
    streamWindow: size,
    maxStreams: seldom(1, 2),
    messagesPerMinute: seldom(1, 60, Infinity),
    bytesPerSecond: seldom(1, 1_000, Infinity),
  })
  .map((stated) => resolveLimits(stated as Partial<Limits>));
const extension = (value: string) => fc.option(fc.constant(value), { nil: undefined });
const extensions = fc
  .record({
    link: fc.option(
      fc
        .record({ message_window: window, stream_window: window, max_streams: seldom(1) })
        .map((stated) => JSON.stringify(stated)),
      { nil: undefined, freq: 8 },
    ),
    resume: extension('{}'),
    agents: extension('{}'),
    context: fc.option(
      fc
        .record({ max_bytes: fc.constantFrom(1, 64, 65_536), max_messages: fc.constantFrom(1, 8) })
        .map((stated) => JSON.stringify(stated)),
      { nil: undefined },
    ),
  })
  .map((all) => Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)));
const offer: fc.Arbitrary<Offer> = fc.record({
  algorithms: fc.shuffledSubarray(Object.values(Algorithm), { minLength: 1 }),
  encodings: fc.subarray<EncodingName>([EncodingName.CL100K_BASE]),
  extensions: extensions as fc.Arbitrary<Record<string, string>>,
  securityScanning: fc.boolean(),
  maxPayloadSize: seldom(1, 100, 65_536).map((stated = 0) => stated),
  limits,
});

const ACTIONS = [
  'send',
  'request',
  'stream',
  'tensor',
  'agents',
  'timeout',
  'abort',
  'flush',
  'stats',
] as const;
const action = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.record({ who: fc.nat(1), what: fc.constantFrom(...ACTIONS), text: fc.nat(4) }),
  },
  { weight: 3, arbitrary: fc.record({ pass: fc.constantFrom(1, 200, 20_000, 70_000) }) },
  { weight: 1, arbitrary: fc.record({ inject: fc.uint8Array({ maxLength: 40 }), to: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.constant('cut' as const) },
);
const RUNS = 200;
const TEXTS = ['', 'ping', 'x'.repeat(300), '{"model":"gpt-4o","messages":[]}', 'Größe 👩‍👩‍👧'];

/** One end of a connection. Frames arrive in a later turn. */
class PairedWire implements Wire {
  readonly bufferedAmount = 0;
  other: { readonly endpoint: Endpoint; readonly wire: PairedWire } | undefined;
  readonly arriving: (() => void)[] = [];
  send(frame: Uint8Array | string): void {
    const copy = typeof frame === 'string' ? frame : frame.slice();
    const { other } = this;
    if (other !== undefined) this.arriving.push(() => other.endpoint.handleMessage(copy, other.wire));
  }
  close(code: number, reason: string): void {
    const { other } = this;
    if (other === undefined) return;
    this.arriving.push(() => {
      other.endpoint.handleDisconnected(code, reason, other.wire);
      other.wire.other?.endpoint.handleDisconnected(code, reason, this);
    });
  }
}

beforeAll(async () => {
  await Promise.all([
    loadCodecs([...Object.values(Algorithm), 'CONTEXT', 'AVP']),
    loadEncoding('CL100K_BASE'),
  ]);
});

it('works for all offers, limits and windows without a fault', async () => {
  let established = 0;
  let received = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(offer, offer),
      fc.constantFrom(Subprotocol.BINARY, Subprotocol.BINARY, Subprotocol.JSON),
      fc.array(action, { minLength: 10, maxLength: 40, size: 'max' }),
      async ([ours, theirs], subprotocol, actions) => {
        const faults: unknown[] = [];
        const guarded = <T>(call: () => T): T | undefined => {
          try {
            return call();
          } catch (error) {
            faults.push(error);
            return undefined;
          }
        };
        const note = (fields: Readonly<Record<string, unknown>>) => {
          if (fields['event'] === 'session.crashed' || fields['event'] === 'request.unanswered')
            faults.push(fields);
        };
        const logger: Logger = { debug() {}, info() {}, warn: note, error: note };
        const clock = new ManualClock();
        const timers = resolveTimers({ resumeWindowMs: 10_000 });
        const coreOf = (role: 'client' | 'server', { limits, ...capabilities }: Offer) =>
          createSession({
            role,
            subprotocol,
            capabilities: { ...capabilities, vocabularies: {} },
            limits,
            timers,
          });
        const onRequest: RequestHandler = async function* (request) {
          yield request.bytes.length % 2 === 0 ? 'even' : { bytes: request.bytes };
          yield { json: { at: TEXTS } };
        };
        const endpointOf = (role: 'client' | 'server', core: SessionCore, { limits }: Offer) =>
          new Endpoint({
            core,
            clock,
            limits,
            role,
            onRequest,
            logger,
            onHello: () => core.accept('session', clock.now(), { agentId: 'agent' }),
            createScanner: passingScanner,
          });
        const client = endpointOf('client', coreOf('client', theirs), theirs);
        const server = endpointOf('server', coreOf('server', ours), ours);
        const ends = [client, server] as const;
        let wires: readonly PairedWire[] = [];
        const connect = () => {
          const [near, far] = [new PairedWire(), new PairedWire()];
          near.other = { endpoint: server, wire: far };
          far.other = { endpoint: client, wire: near };
          wires = [near, far];
          guarded(() => server.handleConnected(far));
          guarded(() => client.handleConnected(near));
        };
        const settle = async () => {
          for (let still = 0; still < 4; ) {
            const arrived = wires.flatMap((wire) => wire.arriving.splice(0));
            for (const arrive of arrived) guarded(arrive);
            await new Promise((resolve) => setImmediate(resolve));
            still = arrived.length === 0 ? still + 1 : 0;
          }
        };
        connect();
        await settle();
        if (client.state === 'established') established++;
        const read = async (session: AsyncIterable<{ readonly text: string }>) => {
          for await (const message of session) void message.text.length;
        };
        const reading = ends.map((end) => read(end.session).catch(ignore));
        for (const each of actions) {
          if (each === 'cut') {
            for (const [i, end] of ends.entries())
              guarded(() => end.handleDisconnected(CloseCode.ABNORMAL, 'cut', wires[i]));
          } else if ('pass' in each) {
            guarded(() => clock.pass(each.pass));
            for (const end of ends) guarded(() => end.handleTick());
          } else if ('inject' in each) {
            guarded(() => ends[each.to]?.handleMessage(each.inject, wires[each.to]));
          } else {
            void use((ends[each.who] as Endpoint).session, each.what, TEXTS[each.text] ?? '').catch(ignore);
          }
          await settle();
        }
        for (const end of ends) void end.close().catch(ignore);
        await settle();
        for (let i = 0; i < 8; i++) {
          guarded(() => clock.pass(70_000));
          for (const end of ends) guarded(() => end.handleTick());
          await settle();
        }
        await Promise.all(reading);
        received += ends.reduce((sum, end) => sum + end.stats().received.messages, 0);
        expect(faults).toEqual([]);
        expect(ends.map(({ state }) => state)).toEqual(['closed', 'closed']);
      },
    ),
    { numRuns: RUNS },
  );
  // Otherwise the test has tried nothing.
  expect(established).toBeGreaterThan(RUNS / 2);
  expect(received).toBeGreaterThan(2 * RUNS);
});

const ignore = () => {};

/** A scan that passes everything, a turn later. */
const passingScanner = (host: ScannerHost): ContentScanner => {
  let last = Promise.resolve();
  return {
    pending: undefined,
    isIdle: true,
    takeMessage(_message, deliver) {
      last = last.then(() => void guard(host, deliver));
    },
    takeRequest: (_message, deliver) => void Promise.resolve().then(() => guard(host, deliver)),
    judge: async (message) => {
      message.securityStatus = { scanned: true, safe: true };
    },
  };
};

/** Acts as an application; each action may be refused. */
async function use(session: Session, what: (typeof ACTIONS)[number], text: string): Promise<unknown> {
  switch (what) {
    case 'send':
      return await session.send(text, text.length % 2 === 0 ? {} : { to: 'agent' });
    case 'request':
      return await session.request(text, { metadata: { text } });
    case 'stream':
      for await (const part of session.stream(text)) if (part.text === 'even') break;
      return undefined;
    case 'tensor':
      return await session.sendTensor({
        data: new Int8Array(text.length * 7 + 1),
        dtype: 'int8',
        payloadType: 'hidden_state',
      });
    case 'agents':
      for await (const agents of await session.agents()) return agents;
      return undefined;
    case 'timeout':
      return await session.request(text, { timeoutMs: 150 });
    case 'abort': {
      const controller = new AbortController();
      const reply = session.request(text, { signal: controller.signal });
      controller.abort();
      return await reply;
    }
    case 'flush':
      return await session.flush();
    default:
      return session.stats();
  }
}

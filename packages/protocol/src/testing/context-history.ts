import { Extension } from '../base/constants.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { encodeUtf8 } from '../base/text.js';
import { createBodyCoder } from '../codec/auto/coder.js';
import { BodyCodec, type CodedBody } from '../codec/body.js';
import type { BodyCoder } from '../codec/coder.js';
import { ContextDecoder } from '../codec/context/decoder.js';
import { ContextEncoder } from '../codec/context/encoder.js';
import { encodeContextParameters } from '../codec/context/parameters.js';
import type { ContextState } from '../codec/context/state.js';
import { decodeLinkFrame, LinkFlag } from '../link/frame.js';
import type { SessionEvent } from '../session/types.js';
import type { Encoding } from '../tokenizer/encoding.js';
import { createProse } from './prose.js';
import { createSimulation, type End, TEST_CAPABILITIES } from './simulation.js';
import { platform } from './this-platform.js';

/**
 * A session with context coding over a link that is cut, in virtual time. Both ends send conversations,
 * parts of replies, secrets, bytes and messages larger than the budget, cancel, fail and stall. A checker
 * that does not know the coding compares what one application sent with what the other received, and the
 * messages that the two ends keep.
 */

export interface HistoryOptions {
  /** Returns a number in [0, 1); the only source of randomness. */
  readonly random: () => number;
  readonly encoding: Encoding;
  /** Damages one body in context: the one with this number. @default none */
  readonly damageFrom?: number;
}

export interface HistoryOutcome {
  readonly faults: readonly string[];
  readonly cuts: number;
  /** Messages delivered to an application. */
  readonly delivered: number;
  /** Delivered messages that were coded in context. */
  readonly inContext: number;
  /** Fragments of bodies in context that were not the last one. */
  readonly fragmented: number;
  readonly cancelled: number;
  /** A body was damaged. */
  readonly damaged: boolean;
  /** Error code that ended the session. */
  readonly endedWith: string | undefined;
}

const BUDGET = { maxBytes: 48 * 1024, maxMessages: 4 };
const LINK = { message_window: 24 * 1024, stream_window: 16 * 1024, max_streams: 16 };
const LIMITS = resolveLimits({
  sessionWindow: 256 * 1024,
  streamWindow: 64 * 1024,
  maxStreams: 16,
  maxMessageSize: 256 * 1024,
  messagesPerMinute: Infinity,
  bytesPerSecond: Infinity,
});
const MAX_STREAMS = 8;

/** Contents sent on one stream in one direction, as the applications see them. */
interface Channel {
  readonly sent: Uint8Array[];
  readonly received: Uint8Array[];
  /** Cancelled or failed: contents may be missing. */
  isCut: boolean;
  /** The receiver got the end of the stream. */
  hasEnded: boolean;
}

export function runHistory(
  { random, encoding, damageFrom = Infinity }: HistoryOptions,
  steps: number,
): HistoryOutcome {
  const int = (n: number) => Math.floor(random() * n);
  const faults: string[] = [];
  const states = watchStates();
  let [cuts, delivered, inContext, fragmented, cancelled, bodies] = [0, 0, 0, 0, 0, 0];
  let damaged = false;

  const tamper = (frame: Uint8Array): Uint8Array => {
    const at = bodyOffset(frame);
    if (at !== undefined && frame[at - 1] !== undefined && ((frame[at - 1] as number) & LinkFlag.MORE) !== 0)
      fragmented++;
    if (at === undefined || damaged || ++bodies < damageFrom) return frame;
    damaged = true;
    const where = at + int(frame.length - at);
    frame[where] = (frame[where] as number) ^ (1 + int(255));
    return frame;
  };

  const common = {
    capabilities: {
      ...TEST_CAPABILITIES,
      extensions: {
        [Extension.LINK]: JSON.stringify(LINK),
        [Extension.RESUME]: '{}',
        [Extension.CONTEXT]: encodeContextParameters(BUDGET),
      },
    },
    limits: LIMITS,
    timers: resolveTimers({}, true),
  };
  const simulation = createSimulation({ client: common, server: common, delayMs: 5, tamper });
  simulation.advance(100);
  const { client, server } = simulation;
  const nameOf = (end: End) => (end === client ? 'client' : 'server');
  const peerOf = (end: End) => (end === client ? server : client);

  const coderOf = (): BodyCoder =>
    createBodyCoder({
      algorithms: TEST_CAPABILITIES.algorithms,
      encoding,
      limits: LIMITS,
      security: undefined,
      context: { maxMessageSize: LIMITS.maxMessageSize },
      yield: () => Promise.resolve(),
    });
  const coders = new Map([client, server].map((end) => [end, coderOf()]));
  const contents = createContents(random);

  const channels = new Map<string, Channel>();
  const channel = (from: End, key: string): Channel => {
    const name = `${nameOf(from)} ${key}`;
    let found = channels.get(name);
    if (found === undefined) {
      found = { sent: [], received: [], isCut: false, hasEnded: false };
      channels.set(name, found);
    }
    return found;
  };
  /** Bodies that arrived and were not read yet. */
  const unread: { end: End; stream: number; charge: number }[] = [];
  /** Streams that an end answers, with the number of parts left to send. */
  const answering: { end: End; stream: number; left: number }[] = [];
  /** Requests of an end whose reply has not ended. */
  const asked: { end: End; stream: number }[] = [];
  const seen = new Map<End, number>([
    [client, 0],
    [server, 0],
  ]);

  const code = (end: End, kind: ContentKind): { content: Uint8Array; coded: CodedBody } => {
    const { content, options } = contents(kind);
    const coder = coders.get(end) as BodyCoder;
    const coded = coder.encode(content, options);
    return { content: typeof content === 'string' ? encodeUtf8(content) : content, coded };
  };

  const take = (event: SessionEvent, end: End): void => {
    const sender = peerOf(end);
    if ('body' in event) {
      delivered++;
      if (event.body.codec === BodyCodec.CONTEXT) inContext++;
      const stream = event.type === 'message' ? 0 : event.streamId;
      unread.push({ end, stream, charge: event.body.charge });
      const key =
        event.type === 'message'
          ? 'messages'
          : event.type === 'request'
            ? `request ${stream}`
            : `reply ${stream}`;
      let bytes: Uint8Array;
      try {
        bytes = (coders.get(end) as BodyCoder).decode(event.body);
      } catch (error) {
        faults.push(`${key}: ${String(error)}`);
        return;
      }
      channel(sender, key).received.push(bytes);
    }
    switch (event.type) {
      case 'request':
        answering.push({ end, stream: event.streamId, left: int(8) });
        return;
      case 'cancel': {
        const index = answering.findIndex((each) => each.end === end && each.stream === event.streamId);
        if (index >= 0) answering.splice(index, 1);
        end.core.channel.end(event.streamId);
        return;
      }
      case 'response':
      case 'end':
      case 'failure': {
        const reply = channel(sender, `reply ${event.streamId}`);
        reply.hasEnded = true;
        if (event.type === 'failure') reply.isCut = true;
        const index = asked.findIndex((each) => each.end === end && each.stream === event.streamId);
        if (index >= 0) asked.splice(index, 1);
        return;
      }
      case 'warning':
        faults.push(event.message);
    }
  };

  const drain = (): void => {
    for (const end of [client, server]) {
      for (let at = seen.get(end) as number; at < end.events.length; at++)
        take(end.events[at] as SessionEvent, end);
      seen.set(end, end.events.length);
    }
  };

  const answer = (index: number): void => {
    const { end, stream, left } = answering[index] as (typeof answering)[number];
    if (left > 0) {
      (answering[index] as (typeof answering)[number]).left--;
      const { content, coded } = code(end, 'part');
      channel(end, `reply ${stream}`).sent.push(content);
      end.core.channel.chunk(stream, coded);
      return;
    }
    answering.splice(index, 1);
    const reply = channel(end, `reply ${stream}`);
    if (random() < 0.2) end.core.channel.fail(stream, undefined);
    else if (reply.sent.length === 0) {
      const { content, coded } = code(end, 'whole');
      reply.sent.push(content);
      end.core.channel.respond(stream, coded);
    } else end.core.channel.end(stream);
  };

  const isOver = () => client.core.state === 'closed' || server.core.state === 'closed';
  const act = (end: End): void => {
    const choice = int(100);
    if (choice < 20) {
      const { content, coded } = code(end, 'whole');
      channel(end, 'messages').sent.push(content);
      end.core.channel.send(coded);
    } else if (choice < 35) {
      if (asked.filter((each) => each.end === end).length >= MAX_STREAMS) return;
      const { content, coded } = code(end, 'whole');
      const stream = end.core.channel.request(coded);
      channel(end, `request ${stream}`).sent.push(content);
      asked.push({ end, stream });
    } else if (choice < 70) {
      const mine = answering.flatMap((each, index) => (each.end === end ? [index] : []));
      const index = mine[int(mine.length)];
      if (index !== undefined) answer(index);
    } else if (choice < 76) {
      const mine = asked.filter((each) => each.end === end);
      // Often the last one, as some of its frames may still be queued.
      const { stream } = (random() < 0.5 ? mine.at(-1) : mine[int(mine.length)]) ?? {};
      if (stream === undefined) return;
      cancelled++;
      channel(end, `request ${stream}`).isCut = true;
      channel(peerOf(end), `reply ${stream}`).isCut = true;
      end.core.channel.cancel(stream);
    } else if (choice < 92) {
      const index = unread.findIndex((each) => each.end === end);
      const [item] = index < 0 ? [] : unread.splice(index, 1);
      if (item !== undefined) end.core.channel.consume(item.stream, item.charge);
    }
  };

  const step = (): void => {
    const choice = int(100);
    if (choice < 70) act(random() < 0.5 ? client : server);
    else if (choice < 95) simulation.advance(int(12));
    else if (choice < 98) {
      cuts++;
      simulation.cut();
      simulation.advance(int(50));
      simulation.reconnect();
    } else simulation.settle();
    drain();
  };

  for (let i = 0; i < steps && !isOver(); i++) step();
  // Let both ends read everything and finish every reply, without further cuts.
  for (let i = 0; i < 400 && !isOver(); i++) {
    while (answering.length > 0) answer(0);
    for (const { end, stream, charge } of unread.splice(0)) end.core.channel.consume(stream, charge);
    simulation.advance(50);
    drain();
    if (
      i > 2 &&
      unread.length + answering.length + asked.length === 0 &&
      client.core.queuedBytes + server.core.queuedBytes === 0
    )
      break;
    if (i === 399) faults.push(`not settled: ${asked.length} requests are unanswered`);
  }

  const ended = [client, server]
    .flatMap((end) => end.events)
    .find((event) => event.type === 'ended' && event.error !== undefined);
  const endedWith = ended?.type === 'ended' ? ended.error?.code : undefined;
  if (endedWith !== undefined && !damaged) faults.push(`ended with ${endedWith}`);
  for (const [name, { sent, received, isCut, hasEnded }] of channels) {
    const mayBeShort = isCut || endedWith !== undefined;
    if (received.length > sent.length || (!mayBeShort && received.length < sent.length)) {
      faults.push(`${name}: ${received.length} of ${sent.length} arrived`);
    }
    // The END of a stream verifies its parts. Everything else must be right when it is delivered.
    const isVerified = !damaged || !name.includes('reply') || (hasEnded && !isCut);
    const wrong = received.findIndex((bytes, i) => !same(bytes, sent[i]));
    if (wrong >= 0 && isVerified) faults.push(`${name}: number ${wrong} arrived with other content`);
  }
  if (!isOver()) faults.push(...states.compare());
  states.stop();
  return { faults, cuts, delivered, inContext, fragmented, cancelled, damaged, endedWith };
}

function same(a: Uint8Array, b: Uint8Array | undefined): boolean {
  return b !== undefined && a.length === b.length && a.every((byte, i) => byte === b[i]);
}

/** Offset of the body in a frame of a body in context; `undefined` for other frames. */
function bodyOffset(frame: Uint8Array): number | undefined {
  if (frame[0] === undefined || frame[0] >> 4 !== 1 || (frame[0] & 0x0f) > 3) return undefined;
  const { codec, rest } = decodeLinkFrame(frame);
  return codec === BodyCodec.CONTEXT && rest.length > 0 ? frame.length - rest.length : undefined;
}

type ContentKind = 'whole' | 'part';

/** Contents to send: three conversations that grow and are edited, parts of replies, and unrelated contents. */
function createContents(random: () => number) {
  const int = (n: number) => Math.floor(random() * n);
  const prose = createProse(int(2 ** 30));
  const conversations = [1, 2, 3].map(() => [prose(60)]);
  const chunk = (text: string) =>
    `{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":${JSON.stringify(text)}}}]}`;
  /** Incompressible bytes. */
  const noise = (length: number) => Uint8Array.from({ length }, () => int(256));

  return (kind: ContentKind): { content: string | Uint8Array; options: { compressAlone?: boolean } } => {
    const choice = int(100);
    if (choice < 4) return { content: noise(int(70_000)), options: {} };
    if (choice < 8) return { content: prose(8 + int(12_000)), options: {} };
    if (choice < 12) return { content: prose(1 + int(30)), options: {} };
    if (kind === 'part' && choice < 85) return { content: chunk(prose(1 + int(3))), options: {} };
    const turns = conversations[int(3)] as string[];
    // Larger than the credit of a new stream, but still coded against a base.
    if (choice < 17) turns.push(Buffer.from(noise(12_000 + int(12_000))).toString('base64'));
    else if (choice < 25) turns[int(turns.length)] += ` ${int(1000)}`;
    else turns.push(prose(5 + int(150)));
    if (turns.length > 30 || turns.join().length > 45_000) turns.splice(0, turns.length - 1);
    const content = JSON.stringify({
      model: 'gpt',
      messages: turns.map((text) => ({ role: 'user', content: text })),
      n: 1,
    });
    return { content, options: choice > 90 ? { compressAlone: true } : {} };
  };
}

/** Observes the context states of all coders until `stop`. */
function watchStates() {
  const sent = new Set<ContextState>();
  const received = new Set<ContextState>();
  const { begin: encoderBegin } = ContextEncoder.prototype;
  const { begin: decoderBegin } = ContextDecoder.prototype;
  ContextEncoder.prototype.begin = function (streamId, offer) {
    sent.add(this.state);
    encoderBegin.call(this, streamId, offer);
  };
  ContextDecoder.prototype.begin = function (streamId, first) {
    received.add(this.state);
    decoderBegin.call(this, streamId, first);
  };
  const checksums = (states: Set<ContextState>) =>
    [...states].map(({ bases }) => bases.map(({ content }) => platform.crc32(content)).join()).toSorted();

  return {
    /** Lists differences between the two ends of a direction, and state that should have been released. */
    compare(): string[] {
      const faults: string[] = [];
      if (checksums(sent).join(';') !== checksums(received).join(';')) {
        faults.push(
          `kept by the senders: ${checksums(sent).join('; ')}; by the receivers: ${checksums(received).join('; ')}`,
        );
      }
      for (const { bases, bytes, streams } of [...sent, ...received]) {
        if (streams > 0) faults.push(`state is kept for ${streams} streams that have ended`);
        if (bases.some(({ pins }) => pins !== 0)) faults.push('a base is still pinned');
        if (bytes > BUDGET.maxBytes || bases.length > BUDGET.maxMessages)
          faults.push(`${bytes} bytes are kept`);
      }
      return faults;
    },
    stop() {
      ContextEncoder.prototype.begin = encoderBegin;
      ContextDecoder.prototype.begin = decoderBegin;
    },
  };
}

import { decodeUtf8, encodeUtf8 } from '../base/text.js';
import { type CodedBody, plainBody } from '../codec/body.js';
import { codedInContext } from '../codec/context/snapshot.js';
import type { SessionEvent } from '../session/types.js';
import { createRandom, type Random } from './chaos/random.js';
import type { TakeOverEngine, TakeOverFault } from './take-over-engine.js';
import { type Owner, TakeOverWorld } from './take-over-world.js';

/**
 * A random history of a durable session: messages in both directions, of which each to the server is answered and counted
 * in one commit, and requests whose replies continue in parts, while processes die and stand still. Each history notes
 * what was said and what arrived, and compares them at the end.
 */

export interface TakeOverHistoryOptions {
  readonly seed: number;
  readonly steps?: number;
  readonly fault?: TakeOverFault | undefined;
  /** @default one in memory */
  readonly engine?: TakeOverEngine | undefined;
}

export interface TakeOverHistoryOutcome {
  readonly faults: readonly string[];
  readonly takeOvers: number;
  readonly zombies: number;
  /** How often a session has rested. */
  readonly rests: number;
  readonly counts: ReadonlyMap<string, number>;
}

const MAX_OPEN = 5;

interface Answer {
  readonly attempt: number;
  /** With what handlers before it had. */
  readonly said: string[];
  end: 'end' | 'failure' | undefined;
  /** The end is recorded for certain. */
  isOver: boolean;
}

interface Exchange {
  readonly request: string;
  readonly isRepeatable: boolean;
  /** It is recorded for certain that its handler is called again. */
  isPromised: boolean;
  started: number;
  readonly received: string[];
  heard: 'end' | 'failure' | 'interrupted' | undefined;
  isCancelled: boolean;
  /** The answer of the last handler. */
  answer: Answer;
  /** Parts that are recorded for certain. */
  recorded: number;
}

export function runTakeOverHistory(options: TakeOverHistoryOptions): TakeOverHistoryOutcome {
  return new TakeOverHistory(options).run();
}

class TakeOverHistory {
  readonly #options: TakeOverHistoryOptions;
  readonly #random: Random;
  readonly #world: TakeOverWorld;
  readonly #counts = new Map<string, number>();
  readonly #told: string[] = [];
  readonly #heard: string[] = [];
  /** Notes of the server that are recorded for certain, in order. */
  readonly #recorded: string[] = [];
  readonly #handled = new Map<string, number>();
  readonly #exchanges = new Map<number, Exchange>();
  readonly #handling = new WeakMap<Owner, number>();
  #next = 0;
  #isSettling = false;

  constructor(options: TakeOverHistoryOptions) {
    this.#options = options;
    this.#random = createRandom(options.seed);
    const applications = {
      handleClient: (event: SessionEvent) => this.#handleClient(event),
      handleServer: (owner: Owner, event: SessionEvent) => this.#handleServer(owner, event),
    };
    this.#world = new TakeOverWorld(this.#random, options.fault, applications, options.engine);
    while (this.#world.client.state === 'connecting') this.#world.advance(50);
  }

  run(): TakeOverHistoryOutcome {
    const { steps = 120 } = this.#options;
    const { faults } = this.#world;
    try {
      for (let i = 0; i < steps && faults.length === 0; i++) this.#step();
      this.#settle();
    } catch (error) {
      faults.push(error instanceof Error ? `${error.name}: ${error.message} ${error.stack}` : String(error));
    }
    if (faults.length === 0) this.#check();
    const { takeOvers, zombies, rests } = this.#world;
    return { faults, takeOvers, zombies, rests, counts: this.#counts };
  }

  #count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }

  #step(): void {
    const random = this.#random;
    const world = this.#world;
    const choice = random.below(100);
    if (choice < 22) this.#send();
    else if (choice < 36) this.#ask();
    else if (choice < 42) this.#note();
    else if (choice < 45) this.#cancel();
    else if (choice < 48) world.cut();
    else if (choice < 54) world.kill();
    else if (choice < 57) world.pause();
    else if (choice < 63) world.wake();
    else if (choice < 76) world.dial();
    world.advance(random.below(random.chance(20) ? 120 : 15));
  }

  #body(text: string): CodedBody {
    const random = this.#random;
    const filling = 'the words of every message. '
      .repeat(80)
      .slice(0, random.below(random.chance(20) ? 2_000 : 60));
    const content = encodeUtf8(`${text}|${filling}`);
    const plain = plainBody(content);
    return random.chance(30) ? plain : { ...plain, deferred: codedInContext(content) };
  }

  // --- the client

  #send(): void {
    this.#count('message');
    const text = `message ${this.#told.length + 1}`;
    this.#world.client.channel.send(this.#body(text));
    this.#told.push(text);
  }

  #ask(): void {
    const open = [...this.#exchanges.values()].filter(({ heard }) => heard === undefined);
    if (open.length >= MAX_OPEN) return;
    this.#count('request');
    const isRepeatable = this.#random.chance(40);
    const request = `request ${this.#next++} ${isRepeatable ? 'again' : ''}`;
    const streamId = this.#world.client.channel.request(this.#body(request));
    this.#exchanges.set(streamId, {
      ...{
        request,
        isRepeatable,
        isPromised: false,
        started: 0,
        received: [],
        heard: undefined,
        isCancelled: false,
      },
      ...{ answer: { attempt: 0, said: [], end: undefined, isOver: false }, recorded: 0 },
    });
  }

  #cancel(): void {
    const open = [...this.#exchanges].filter(([, { heard }]) => heard === undefined);
    const [streamId, exchange] = this.#random.pick(open) ?? [];
    if (streamId === undefined || exchange === undefined) return;
    this.#count('cancel');
    exchange.isCancelled = true;
    this.#world.client.channel.cancel(streamId);
  }

  #handleClient(event: SessionEvent): void {
    const { client, faults } = this.#world;
    if (event.type === 'ended') faults.push(`the client ended: ${event.error?.code} ${event.error?.message}`);
    if ('body' in event) {
      this.#count('arrived');
      const streamId = event.type === 'message' ? 0 : event.streamId;
      this.#world.later(this.#random.below(20), () => client.channel.consume(streamId, event.body.charge));
      const text = textOf(event.body.content ?? event.body.bytes);
      if (event.type === 'message') this.#heard.push(text);
      else this.#exchangeOf(streamId).received.push(text);
    }
    if (event.type === 'response' || event.type === 'end') this.#exchangeOf(event.streamId).heard = 'end';
    if (event.type === 'failure') {
      const isInterrupted = event.error.code === 'interrupted';
      this.#exchangeOf(event.streamId).heard = isInterrupted ? 'interrupted' : 'failure';
      if (isInterrupted) this.#count('interrupted');
    }
  }

  // --- the server's application

  #note(): void {
    const { owner } = this.#world;
    if (owner === undefined || owner.isPaused || !isOpen(owner)) return;
    this.#count('note');
    const text = `note ${this.#next++}`;
    owner.core.channel.send(this.#body(text));
    owner.core.record?.afterCommit(() => this.#recorded.push(text));
  }

  #handleServer(owner: Owner, event: SessionEvent): void {
    const { core } = owner;
    if (event.type === 'ended' && event.error?.code !== 'fenced')
      this.#world.faults.push(`the server ended: ${event.error?.code} ${event.error?.message}`);
    if (event.type === 'message') {
      const text = textOf(event.body.content ?? event.body.bytes);
      // One after the other, as `for await` does.
      const at = Math.max(this.#handling.get(owner) ?? 0, this.#world.now) + this.#random.below(10);
      this.#handling.set(owner, at);
      if (this.#options.fault === 'messages are handled before their effects are recorded')
        core.record?.handle(event.number as number);
      this.#atOwner(owner, at - this.#world.now, () => {
        const before = this.#handled.get(text) ?? 0;
        if (event.redelivered) this.#count('handled again');
        else if (before > 0) this.#world.faults.push(`${text} is not marked`);
        else this.#handled.set(text, 1);
        core.channel.consume(0, event.body.charge);
        const count = countOf(core.record?.state) + 1;
        core.record?.setState(Uint8Array.of(count % 256, count >> 8));
        core.record?.handle(event.number as number);
        core.channel.send(this.#body(`answer ${count} to ${text}`));
      });
    }
    if (event.type === 'request') this.#begin(owner, event);
  }

  #begin(owner: Owner, event: SessionEvent & { readonly type: 'request' }): void {
    const { streamId, attempt = 1, yielded = [] } = event;
    const { channel, record: durable } = owner.core;
    const exchange = this.#exchangeOf(streamId);
    channel.consume(streamId, event.body.charge);
    if (textOf(event.body.content ?? event.body.bytes) !== exchange.request)
      this.#world.faults.push(`${exchange.request} arrived as another`);
    exchange.started++;
    if (attempt > 1) this.#count('called again');
    if (attempt > 1 && !exchange.isRepeatable) this.#world.faults.push(`${exchange.request} ran again`);
    if (exchange.isRepeatable) {
      durable?.repeat(streamId);
      durable?.afterCommit(() => {
        exchange.isPromised = true;
      });
    }
    const answer: Answer = {
      ...{ attempt, said: yielded.map(({ bytes }) => textOf(bytes)), end: undefined, isOver: false },
    };
    // A process that stood still may begin later than the one that follows it.
    if (attempt > exchange.answer.attempt) exchange.answer = answer;
    this.#goOn(owner, streamId, exchange, answer);
  }

  #goOn(owner: Owner, streamId: number, exchange: Exchange, answer: Answer): void {
    const random = this.#random;
    this.#atOwner(owner, random.below(25), () => {
      const { channel, record: durable } = owner.core;
      if (!channel.isWanted(streamId)) return channel.end(streamId);
      const isLast = random.chance(this.#isSettling ? 40 : 10);
      const text = `${exchange.request}: ${this.#next++}`;
      const { length } = answer.said;
      if (isLast && length === 0 && random.chance(50)) {
        answer.said.push(text);
        answer.end = 'end';
        channel.respond(streamId, this.#body(text));
      } else if (isLast) {
        answer.end = random.chance(30) ? 'failure' : 'end';
        if (answer.end === 'end') channel.end(streamId);
        else channel.fail(streamId, undefined);
      }
      if (isLast) {
        return durable?.afterCommit(() => {
          answer.isOver = true;
        });
      }
      answer.said.push(text);
      channel.chunk(streamId, this.#body(text));
      durable?.afterCommit(() => {
        exchange.recorded = Math.max(exchange.recorded, length + 1);
      });
      this.#goOn(owner, streamId, exchange, answer);
    });
  }

  /** Runs something at a process later: not if it has died, and not while it stands still. */
  #atOwner(owner: Owner, ms: number, run: () => void): void {
    this.#world.later(ms, () => {
      if (!owner.isAlive || owner.isFenced || !isOpen(owner)) return;
      if (owner.isPaused) owner.inbox.push(() => this.#atOwner(owner, 0, run));
      else run();
    });
  }

  // --- the end

  #settle(): void {
    this.#isSettling = true;
    const world = this.#world;
    for (let round = 0; round < 60 && world.faults.length === 0; round++) {
      world.wake();
      world.dial();
      world.advance(200);
    }
  }

  #check(): void {
    const { faults, client, engine, owner } = this.#world;
    const differs = (what: string, actual: unknown, expected: unknown): void => {
      const [a, b] = [String(JSON.stringify(actual)), String(JSON.stringify(expected))];
      if (a !== b) faults.push(`${what}: ${a.slice(0, 600)} in place of ${b.slice(0, 600)}`);
    };
    differs(
      'answers',
      this.#heard.filter((text) => text.startsWith('answer')),
      this.#told.map((text, i) => `answer ${i + 1} to ${text}`),
    );
    const notes = this.#heard.filter((text) => text.startsWith('note'));
    differs('notes heard once', notes.length, new Set(notes).size);
    // A process that stands still learns late that its note is recorded.
    const inOrder = this.#recorded.sort((a, b) => Number(a.slice(5)) - Number(b.slice(5)));
    const certain = notes.filter((text) => inOrder.includes(text));
    differs('notes', certain, inOrder);
    const record = engine.read();
    differs('handled', [record.handled, countOf(record.state)], [this.#told.length, this.#told.length]);
    for (const exchange of this.#exchanges.values()) this.#checkExchange(exchange, differs);
    differs('open streams', [client.channel.openStreams, owner?.core.channel.openStreams], [0, 0]);
    differs(
      'unacknowledged',
      [client.channel.framesUnconfirmed, owner?.core.channel.framesUnconfirmed],
      [0, 0],
    );
    if (owner?.core.channel.hasUntold !== false) faults.push('something is not recorded');
  }

  #checkExchange(
    { request, isRepeatable, isPromised, started, received, heard, isCancelled, answer, recorded }: Exchange,
    differs: (what: string, actual: unknown, expected: unknown) => void,
  ): void {
    const { faults } = this.#world;
    const { said, end } = answer;
    if (!isRepeatable && started > 1) faults.push(`${request} was started ${started} times`);
    if (heard === undefined) faults.push(`${request} has no end`);
    differs(request, received, said.slice(0, received.length));
    if (isCancelled) return;
    if (started === 0 && heard === 'end') faults.push(`${request} was answered, and no handler was called`);
    if (received.length < recorded) faults.push(`${request} lacks ${recorded - received.length} parts`);
    if (heard !== 'interrupted' || isPromised || answer.isOver)
      differs(`${request} at its end`, [received.length, heard], [said.length, end]);
  }

  #exchangeOf(streamId: number): Exchange {
    const exchange = this.#exchanges.get(streamId);
    if (exchange === undefined) throw new Error(`stream ${streamId} was never opened`);
    return exchange;
  }
}

const isOpen = ({ core }: Owner): boolean => core.state === 'established' || core.state === 'suspended';
const textOf = (bytes: Uint8Array): string => decodeUtf8(bytes).split('|')[0] as string;
const countOf = (state: Uint8Array | undefined): number =>
  state === undefined ? 0 : (state[0] as number) + 256 * (state[1] as number);

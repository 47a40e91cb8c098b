import { decodeUtf8, encodeUtf8 } from '../base/text.js';
import { BodyCodec, type CodedBody, plainBody } from '../codec/body.js';
import { codedInContext } from '../codec/context/snapshot.js';
import type { SessionEvent } from '../session/types.js';
import { createRandom, type Random } from './chaos/random.js';
import { contextOf } from './context-of.js';
import type { Exchange } from './exchange.js';
import { MOVE_OPTIONS } from './move-options.js';
import { QUIET_MS, Rests } from './rests.js';
import { createSimulation, type End, type Simulation } from './simulation.js';
import { type SwapFault, Swaps } from './swaps.js';

/**
 * A session whose server moves to another process at any time, in virtual time: messages, requests and replies in both
 * directions, in context and not, addressed and not, with credit that runs out, cancels, failures, lost connections, pages
 * that take the session up with a rebuilt link, and clients that change to another connection because they were asked to.
 * Every body is written down when it is sent.
 */

export interface MoveHistoryOptions {
  readonly seed: number;
  readonly steps?: number;
  /** The client changes to other connections; with a fault, not as it should. @default it does not */
  readonly swaps?: boolean | SwapFault;
  /** The server rests as often as it can; if not, the same history is run without. @default it does neither */
  readonly rests?: boolean | undefined;
  /** The bytes that arrive in place of a snapshot. @default the snapshot */
  readonly change?: (snapshot: Uint8Array) => Uint8Array;
  /** Called after each move with what was moved and what a restored session gives again. */
  readonly onMoved?: (before: Uint8Array, after: Uint8Array) => void;
}

export interface MoveHistoryOutcome {
  readonly faults: readonly string[];
  readonly moves: number;
  readonly rests: number;
  /** The link frames that each end has written, in their order; only with the option `rests`. */
  readonly frames: readonly string[];
  /** How often each step was taken, and how many bodies arrived. */
  readonly counts: ReadonlyMap<string, number>;
}

const MAX_OPEN = 5;
/** Charges that the server may leave unread when a page is loaded again. */
const MOST_UNREAD = 1_000;
const AGENTS = [undefined, undefined, 'one', 'two', '@directory'] as const;

interface Unread {
  readonly streamId: number;
  readonly charge: number;
}

export function runMoveHistory(options: MoveHistoryOptions): MoveHistoryOutcome {
  return new MoveHistory(options).run();
}

class MoveHistory {
  readonly #options: MoveHistoryOptions;
  readonly #random: Random;
  readonly #simulation: Simulation;
  readonly #swaps: Swaps;
  readonly #counts = new Map<string, number>();
  readonly #faults: string[] = [];
  readonly #rests = new Rests();
  #moves = 0;
  #next = 0;
  #isCut = false;
  readonly #told: Record<'page' | 'server', string[]> = { page: [], server: [] };
  readonly #heard: Record<'page' | 'server', string[]> = { page: [], server: [] };
  readonly #exchanges = new Map<number, Exchange>();
  readonly #seen = new Map<End, number>();
  readonly #unread = new Map<End, Unread[]>();
  /** Streams that an end has to answer. */
  readonly #asked = new Map<End, number[]>();

  constructor(options: MoveHistoryOptions) {
    this.#options = options;
    this.#random = createRandom(options.seed);
    const tamper = options.rests === undefined ? undefined : this.#rests.note;
    this.#simulation = createSimulation({ delayMs: 5, client: MOVE_OPTIONS, server: MOVE_OPTIONS, tamper });
    this.#simulation.advance(50);
    const { swaps = false } = options;
    this.#swaps = new Swaps(this.#simulation, this.#random, typeof swaps === 'string' ? swaps : undefined);
  }

  run(): MoveHistoryOutcome {
    const { steps = 150 } = this.#options;
    try {
      for (let i = 0; i < steps && this.#isOpen; i++) this.#step();
      this.#settle();
    } catch (error) {
      this.#faults.push(error instanceof Error ? `${error.name}: ${error.message}` : String(error));
    }
    if (this.#faults.length === 0) this.#check();
    const { count: rests, frames } = this.#rests;
    return { faults: this.#faults, moves: this.#moves, rests, frames, counts: this.#counts };
  }

  get #page(): End {
    return this.#simulation.client;
  }
  get #server(): End {
    return this.#simulation.server;
  }
  get #isOpen(): boolean {
    return this.#faults.length === 0;
  }

  #step(): void {
    const random = this.#random;
    if (this.#options.swaps && random.chance(30)) this.#swap();
    if (this.#options.rests !== undefined && random.chance(15)) {
      this.#calm(3);
      this.#simulation.advance(QUIET_MS);
    }
    const fault = this.#options.rests ? this.#rests.step(this.#simulation) : undefined;
    if (fault !== undefined) this.#faults.push(fault);
    const end = random.chance(50) ? this.#page : this.#server;
    const choice = random.below(100);
    if (choice < 20) this.#send(end);
    else if (choice < 32) this.#ask(end);
    else if (choice < 56) this.#answer(end);
    else if (choice < 60) this.#cancel(end);
    else if (choice < 70) this.#read(end);
    else if (choice < 80) this.#simulation.advance(random.below(60));
    else if (choice < 83) this.#cutOrReconnect();
    else if (choice < 84) this.#reload();
    else this.#move();
    this.#look();
  }

  #count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }

  #nameOf(end: End): 'page' | 'server' {
    return end === this.#server ? 'server' : 'page';
  }

  // --- what applications do

  #body(most: number): CodedBody & { readonly address: string | undefined } {
    const random = this.#random;
    const size = random.below(random.chance(30) ? most : 120);
    const text = `${this.#next++}:${'the words of every message. '.repeat(110).slice(random.below(9), size)}`;
    const content = encodeUtf8(text);
    const plain = { ...plainBody(content), address: undefined };
    if (random.chance(30)) return { ...plain, secret: random.chance(50) };
    const metadata = random.chance(20) ? Uint8Array.of(0x81, 0xa1, 0x61, this.#next % 100) : undefined;
    return { ...plain, metadata, deferred: codedInContext(content) };
  }

  #send(end: End): void {
    this.#count('message');
    const agent = this.#random.pick(AGENTS);
    const body = { ...this.#body(2_900), address: agent };
    end.core.channel.send(body);
    this.#told[this.#nameOf(end)].push(textOf(body.bytes, agent));
  }

  #ask(end: End): void {
    const open = [...this.#exchanges.values()].filter(
      ({ asker, heard }) => asker === end && heard === undefined,
    );
    if (open.length >= MAX_OPEN) return;
    this.#count('request');
    const body = this.#body(2_500);
    const streamId = end.core.channel.request(body);
    this.#exchanges.set(streamId, {
      ...{ asker: end, streamId, request: textOf(body.bytes, undefined), requested: false },
      ...{ sent: [], received: [], said: undefined, heard: undefined, isCut: false },
    });
  }

  #answer(end: End, isLast = this.#random.chance(20)): void {
    const asked = this.#listOf(this.#asked, end);
    const streamId = this.#random.pick(asked);
    if (streamId === undefined) return;
    const exchange = this.#exchangeOf(streamId);
    const { channel } = end.core;
    const isWanted = channel.isWanted(streamId);
    if (!isLast && isWanted) {
      const part = this.#body(1_400);
      exchange.sent.push(textOf(part.bytes, undefined));
      return channel.chunk(streamId, part);
    }
    asked.splice(asked.indexOf(streamId), 1);
    const isFailure = this.#random.chance(30);
    exchange.said = isFailure ? 'failure' : 'end';
    if (isFailure) channel.fail(streamId, undefined);
    else if (exchange.sent.length > 0 || !isWanted) channel.end(streamId);
    else {
      const reply = this.#body(2_500);
      exchange.sent.push(textOf(reply.bytes, undefined));
      channel.respond(streamId, reply);
    }
  }

  #cancel(end: End): void {
    const open = [...this.#exchanges.values()].filter(
      ({ asker, heard }) => asker === end && heard === undefined,
    );
    const exchange = this.#random.pick(open);
    if (exchange === undefined) return;
    this.#count('cancel');
    exchange.isCut = true;
    end.core.channel.cancel(exchange.streamId);
  }

  #read(end: End): void {
    const unread = this.#listOf(this.#unread, end);
    for (const { streamId, charge } of unread.splice(0, 1 + this.#random.below(unread.length)))
      end.core.channel.consume(streamId, charge);
  }

  // --- what networks, pages and operators do

  #swap(): void {
    const outcome = this.#swaps.step();
    if (outcome === undefined) return;
    this.#count('swap');
    if (outcome === 'without a connection') this.#faults.push('the client was without a connection');
  }

  #cutOrReconnect(): void {
    this.#swaps.lose();
    this.#count(this.#isCut ? 'reconnect' : 'cut');
    if (this.#isCut) this.#simulation.reconnect();
    else this.#simulation.cut();
    this.#isCut = !this.#isCut;
  }

  #reload(): void {
    if (this.#isCut) return;
    this.#count('reload');
    this.#swaps.lose();
    const simulation = this.#simulation;
    // Messages that the page has received before it goes count, and a page that leaves too much unread is refused.
    simulation.settle();
    this.#look();
    const unread = this.#listOf(this.#unread, this.#server);
    let left = unread.reduce((sum, { charge }) => sum + charge, 0);
    while (left > MOST_UNREAD || (unread.length > 0 && this.#random.chance(30))) {
      const { streamId, charge } = unread.shift() as Unread;
      left -= charge;
      this.#server.core.channel.consume(streamId, charge);
    }
    for (const exchange of this.#exchanges.values()) exchange.isCut = true;
    for (const exchange of this.#exchanges.values())
      if (exchange.asker === this.#page) exchange.heard ??= 'end';
    if (this.#random.chance(50)) simulation.cut();
    simulation.reload();
    simulation.advance(30);
    if (!this.#page.events.some(({ type }) => type === 'takenUp')) this.#faults.push('not taken up');
  }

  #move(): void {
    const { change, onMoved } = this.#options;
    const { state } = this.#server.core;
    let before: Uint8Array | undefined;
    const isMoved = this.#simulation.move((snapshot) => {
      before = snapshot;
      return change?.(snapshot) ?? snapshot;
    });
    if (!isMoved || before === undefined) return;
    this.#moves++;
    if (this.#isCut) this.#count('moved while suspended');
    const { core } = this.#server;
    if (core.state !== state) this.#faults.push(`the session is ${core.state} and was ${state}`);
    onMoved?.(before, this.#simulation.snapshot());
  }

  /** Everything that is under way is read and answered. */
  #calm(rounds: number): void {
    for (let round = 0; round < rounds && this.#isOpen; round++) {
      this.#simulation.advance(300);
      this.#look();
      for (const end of [this.#page, this.#server]) {
        while (this.#listOf(this.#asked, end).length > 0) this.#answer(end, true);
        while (this.#listOf(this.#unread, end).length > 0) this.#read(end);
      }
    }
  }

  // --- what arrives

  #look(): void {
    for (const end of [this.#page, this.#server]) {
      const events = end.events.slice(this.#seen.get(end) ?? 0);
      this.#seen.set(end, end.events.length);
      for (const event of events) this.#handle(end, event);
    }
  }

  #handle(end: End, event: SessionEvent): void {
    if (event.type === 'ended') {
      this.#faults.push(`the ${this.#nameOf(end)} ended: ${event.error?.code} ${event.error?.message}`);
    }
    if ('body' in event) {
      this.#count('arrived');
      if (event.body.codec === BodyCodec.CONTEXT) this.#count('arrived in context');
      const streamId = event.type === 'message' ? 0 : event.streamId;
      this.#listOf(this.#unread, end).push({ streamId, charge: event.body.charge });
      const text = textOf(event.body.content ?? event.body.bytes, event.body.address);
      if (event.type === 'message') this.#heard[this.#nameOf(end)].push(text);
      else if (event.type === 'request') this.#handleRequest(end, streamId, text);
      else this.#exchangeOf(streamId).received.push(text);
    }
    switch (event.type) {
      case 'goaway':
        return this.#swaps.handleAsked();
      case 'cancel':
        // A handler notices at once, or when it says the next thing.
        if (this.#random.chance(50)) this.#stop(end, event.streamId);
        return;
      case 'response':
      case 'end':
        this.#exchangeOf(event.streamId).heard = 'end';
        return;
      case 'failure':
        this.#exchangeOf(event.streamId).heard = 'failure';
    }
  }

  #handleRequest(end: End, streamId: number, text: string): void {
    const exchange = this.#exchangeOf(streamId);
    if (exchange.requested) this.#faults.push(`request ${streamId} arrived twice`);
    exchange.requested = true;
    if (text !== exchange.request)
      this.#faults.push(`request ${streamId} is ${text}, not ${exchange.request}`);
    this.#listOf(this.#asked, end).push(streamId);
  }

  #stop(end: End, streamId: number): void {
    const asked = this.#listOf(this.#asked, end);
    if (!asked.includes(streamId)) return;
    asked.splice(asked.indexOf(streamId), 1);
    end.core.channel.end(streamId);
  }

  // --- the end

  /** Reads and answers everything, and still moves. */
  #settle(): void {
    if (this.#isCut) this.#cutOrReconnect();
    for (let round = 0; round < 60 && this.#isOpen; round++) {
      this.#calm(1);
      if (round % 7 === 0) this.#move();
    }
    this.#simulation.advance(1_000);
    this.#look();
  }

  #check(): void {
    const differs = (what: string, actual: unknown, expected: unknown): void => {
      const [a, b] = [String(JSON.stringify(actual)), String(JSON.stringify(expected))];
      if (a !== b) this.#faults.push(`${what}: ${a.slice(0, 200)} in place of ${b.slice(0, 200)}`);
    };
    differs('messages to pages', this.#heard.page, this.#told.server);
    // Messages that were under way to the server when its page went are lost, and nothing else.
    const { server: heard } = this.#heard;
    const isReloaded = this.#counts.has('reload');
    differs(
      'messages to the server',
      heard,
      isReloaded ? this.#told.page.filter((text) => heard.includes(text)) : this.#told.page,
    );
    for (const { streamId, sent, received, said, heard, isCut, requested } of this.#exchanges.values()) {
      differs(
        `reply ${streamId}`,
        received,
        isCut || said === 'failure' ? sent.slice(0, received.length) : sent,
      );
      if (!isCut) differs(`exchange ${streamId}`, [requested, heard], [true, said]);
    }
    const [page, server] = [this.#page.core, this.#server.core];
    differs('frames confirmed', [page.channel.framesUnconfirmed, server.channel.framesUnconfirmed], [0, 0]);
    differs('open streams', [page.channel.openStreams, server.channel.openStreams], [0, 0]);
    differs('queued bytes', [page.queuedBytes, server.queuedBytes, server.heldBytes], [0, 0, 0]);
    const [atPage, atServer] = [contextOf(this.#page), contextOf(this.#server)];
    differs('context to the server', atServer.received, atPage.sent);
    differs('context to the page', atServer.sent, atPage.received);
  }

  #exchangeOf(streamId: number): Exchange {
    const exchange = this.#exchanges.get(streamId);
    if (exchange === undefined) throw new Error(`stream ${streamId} was never opened`);
    return exchange;
  }

  #listOf<Item>(lists: Map<End, Item[]>, end: End): Item[] {
    const list = lists.get(end) ?? [];
    lists.set(end, list);
    return list;
  }
}

function textOf(bytes: Uint8Array, agent: string | undefined): string {
  return `${decodeUtf8(bytes)} ${agent ?? ''}`;
}

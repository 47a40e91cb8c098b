import type { SessionCore, SessionEvent } from '../../session/types.js';
import type { Side } from './network.js';
import { numberedBody, numberOf } from './numbered.js';
import type { World } from './world.js';

/**
 * An application that uses one end of a session at random: it sends, requests, answers in parts, cancels,
 * reads occasionally, and stops reading some streams for a while.
 */

interface Unread {
  readonly streamId: number;
  readonly charge: number;
}

interface Handler {
  readonly streamId: number;
  partsLeft: number;
}

const MAX_OPEN_STREAMS = 20;
const MAX_PARTS = 6;

export interface ApplicationOptions extends World {
  readonly core: SessionCore;
  readonly side: Side;
  readonly session: string;
}

export class Application {
  readonly #options: ApplicationOptions;
  /** Unread one-way messages and parts. When a reply ends, its parts leave: their sender no longer waits. */
  #unread: Unread[] = [];
  readonly #stalled = new Set<number>();
  readonly #asked = new Set<number>();
  readonly #handlers: Handler[] = [];

  constructor(options: ApplicationOptions) {
    this.#options = options;
    options.ledger.joined(options.session, options.side);
  }

  get isEstablished(): boolean {
    return this.#options.core.state === 'established';
  }

  get isIdle(): boolean {
    const { core } = this.#options;
    const waits =
      core.hasOutput ||
      core.isBlockedOnCredit ||
      core.channel.framesUnconfirmed > 0 ||
      core.channel.openStreams > 0;
    return core.state === 'established' && !waits && this.#unread.length === 0;
  }

  /** The connection is lost. */
  lose(): void {
    const { ledger, session, side, network } = this.#options;
    ledger.lost(session, side, network.now);
  }

  /** The session is resumed. */
  regain(): void {
    const { ledger, session, side } = this.#options;
    ledger.resumed(session, side);
  }

  handle(event: SessionEvent): void {
    const { ledger, session, side, core, random, network } = this.#options;
    switch (event.type) {
      case 'state':
        if (event.state === 'closing') ledger.closing(session, side, network.now);
        return;
      case 'ended':
        ledger.ended(session, side, {
          at: network.now,
          error: event.error,
          undelivered: core.unconfirmed(),
        });
        return;
      case 'message':
        this.#receive(0, event.body);
        return;
      case 'request':
        ledger.received(session, side, event.streamId, numberOf(event.body.bytes));
        core.channel.consume(event.streamId, event.body.charge);
        this.#handlers.push({ streamId: event.streamId, partsLeft: random.below(MAX_PARTS) });
        return;
      case 'part':
        this.#receive(event.streamId, event.body);
        return;
      case 'response':
        ledger.received(session, side, event.streamId, numberOf(event.body.bytes));
        this.#finish(event.streamId);
        return;
      case 'end':
      case 'failure':
        this.#finish(event.streamId);
        return;
      case 'cancel':
        ledger.cancelArrived(session, side, event.streamId);
        // The handler notices at once, or only when it sends its next part.
        if (random.chance(50))
          this.#answer(this.#handlers.find(({ streamId }) => streamId === event.streamId));
    }
  }

  /** Performs one random action. */
  act(): void {
    const { core, random } = this.#options;
    const choice = random.below(100);
    if (choice < 35) this.#read();
    else if (core.state !== 'established' && core.state !== 'suspended') return;
    else if (choice < 55) this.#send();
    else if (choice < 65) this.#ask();
    else if (choice < 93) this.#answer(random.pick(this.#handlers));
    else if (choice < 97) this.#cancel();
    else this.#stall();
  }

  /** Reads everything and finishes every reply. */
  settle(): void {
    this.#stalled.clear();
    for (const handler of [...this.#handlers]) {
      handler.partsLeft = 0;
      this.#answer(handler);
    }
    while (this.#unread.length > 0) this.#read();
  }

  #receive(streamId: number, body: { readonly bytes: Uint8Array; readonly charge: number }): void {
    const { ledger, session, side, onUnread } = this.#options;
    ledger.received(session, side, streamId, numberOf(body.bytes));
    this.#unread.push({ streamId, charge: body.charge });
    let waiting = 0;
    for (const { charge } of this.#unread) waiting += charge;
    onUnread(waiting);
  }

  #finish(streamId: number): void {
    const { ledger, session, side } = this.#options;
    this.#asked.delete(streamId);
    this.#unread = this.#unread.filter((item) => item.streamId !== streamId);
    ledger.finished(session, side, streamId);
  }

  #read(): void {
    const index = this.#unread.findIndex(({ streamId }) => !this.#stalled.has(streamId));
    const [item] = index < 0 ? [] : this.#unread.splice(index, 1);
    if (item !== undefined) this.#options.core.channel.consume(item.streamId, item.charge);
  }

  #body(streamId: number, isOpen = true): ReturnType<typeof numberedBody> {
    const { ledger, session, side, random, nextNumber } = this.#options;
    const number = nextNumber();
    if (isOpen) ledger.sent(session, side, streamId, number);
    return numberedBody(number, 8 + random.below(random.chance(8) ? 60_000 : 300));
  }

  /** Sends one message, or occasionally more than the peer accepts at once. */
  #send(): void {
    const { core, random } = this.#options;
    for (let i = random.chance(5) ? random.below(40) : 0; i >= 0; i--) core.channel.send(this.#body(0));
  }

  #ask(): void {
    const { core, ledger, session, side, random, nextNumber } = this.#options;
    if (core.channel.openStreams >= MAX_OPEN_STREAMS) return;
    const number = nextNumber();
    const streamId = core.channel.request(
      numberedBody(number, 8 + random.below(random.chance(8) ? 60_000 : 300)),
    );
    ledger.sent(session, side, streamId, number);
    this.#asked.add(streamId);
  }

  /** Sends one more part of a reply, or its end. */
  #answer(handler: Handler | undefined): void {
    if (handler === undefined) return;
    const { core, random } = this.#options;
    const { streamId } = handler;
    const isWanted =
      core.channel.isWanted(streamId) && (core.state === 'established' || core.state === 'suspended');
    if (isWanted && handler.partsLeft > 0) {
      handler.partsLeft--;
      core.channel.chunk(streamId, this.#body(streamId));
      return;
    }
    this.#handlers.splice(this.#handlers.indexOf(handler), 1);
    const choice = random.below(4);
    // A response counts as the last part; a cancelled handler may still respond.
    if (choice === 0) core.channel.respond(streamId, this.#body(streamId, isWanted));
    else if (choice === 1) core.channel.fail(streamId, new Error('the handler failed'));
    else core.channel.end(streamId);
  }

  #cancel(): void {
    const { core, ledger, session, side, random } = this.#options;
    const streamId = random.pick([...this.#asked]);
    if (streamId === undefined) return;
    this.#asked.delete(streamId);
    ledger.cancelled(session, side, streamId);
    core.channel.cancel(streamId);
  }

  #stall(): void {
    const { random } = this.#options;
    const streamId = random.chance(50) ? 0 : random.pick([...this.#asked]);
    if (streamId !== undefined && !this.#stalled.delete(streamId)) this.#stalled.add(streamId);
  }
}

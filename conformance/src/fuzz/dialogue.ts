import { fail, holds } from '../expect.js';
import {
  CloseCode,
  CloseReason,
  decodeControl,
  decodeControlJson,
  type ProtocolError,
  type SessionCore,
  Subprotocol,
} from '../subject.js';
import { Choices } from './choices.js';
import { addFigures, countFrame, createFigures, type Figures } from './figures.js';
import { mutate } from './mutate.js';
import { drawOffer } from './offers.js';
import { SessionEnd, unthrown } from './session-end.js';

/**
 * Two sessions that exchange traffic, one of them under test. The input decides what they offer each other,
 * what their applications do, how time passes and when the connection is lost. The peer follows the protocol,
 * so that the session gets far, except that a frame is damaged on its way now and then.
 */

const STEPS = 1_400;
/** One in this many frames to the session under test is damaged on its way. */
const DAMAGE = 1_500;
/** The most frames and events until both ends are idle. */
const MAX_EFFECTS = 100_000;

export interface DialogueOptions {
  /** Called with every frame before the session under test handles it. */
  readonly tap?: ((frame: Uint8Array | string) => void) | undefined;
}

/** @returns whether the session under test has ended with an error. */
export function converse(input: Uint8Array, figures: Figures, options: DialogueOptions = {}): boolean {
  const dialogue = new Dialogue(new Choices(input), options);
  dialogue.run();
  figures.sessions++;
  addFigures(figures, dialogue.figures);
  return dialogue.failure !== undefined;
}

class Dialogue {
  readonly figures = createFigures();
  readonly #choices: Choices;
  readonly #tap: DialogueOptions['tap'];
  readonly #subprotocol: Subprotocol;
  readonly #server: SessionEnd;
  readonly #client: SessionEnd;
  readonly #subject: SessionEnd;
  readonly #peer: SessionEnd;
  #now = 0;
  #isDamaged = false;

  constructor(choices: Choices, { tap }: DialogueOptions) {
    this.#choices = choices;
    this.#tap = tap;
    this.#subprotocol = choices.oneIn(8) ? Subprotocol.JSON : Subprotocol.BINARY;
    const isServer = !choices.oneIn(2);
    const accept = (core: SessionCore) => void core.accept('sess_fuzz', this.#now, { agentId: 'subject' });
    const end = (role: 'client' | 'server') =>
      new SessionEnd(role, this.#subprotocol, drawOffer(choices), choices, accept);
    this.#server = end('server');
    this.#client = end('client');
    this.#subject = isServer ? this.#server : this.#client;
    this.#peer = isServer ? this.#client : this.#server;
  }

  get failure(): ProtocolError | undefined {
    return this.#subject.failure;
  }

  run(): void {
    const { core: client } = this.#client;
    const { core: server } = this.#server;
    unthrown(() => server.handleConnected(0));
    unthrown(() => client.handleConnected(0));
    this.#settle();
    for (let step = 0; step < STEPS && !this.#subject.hasEnded && !this.#peer.hasEnded; step++) {
      this.#step();
      this.#settle();
    }
    const closing = this.#choices.oneIn(2) ? client : server;
    unthrown(() => closing.close(CloseReason.NORMAL, '', this.#now));
    for (let i = 0; i < 20; i++) {
      for (const end of [this.#subject, this.#peer]) end.takeAll();
      this.#settle();
    }
    // Timeouts must end the session in every case.
    for (let i = 0; i < 200 && !this.#subject.hasEnded; i++) {
      const next = this.#subject.core.nextTimeout();
      holds(!Number.isNaN(next), 'the next timeout is not a number');
      if (next === Infinity) break;
      this.#wait(Math.max(0, next - this.#now));
    }
    for (const { failure } of [this.#subject, this.#peer])
      if (failure?.code === 'internal' && failure.side === 'local')
        fail(
          `an internal error ended a session: ${(failure.cause as Error | undefined)?.stack ?? failure.stack}`,
        );
    if (this.#isDamaged || !this.#subject.offer.isConsistent || !this.#peer.offer.isConsistent) return;
    // A remote error only repeats what the other end reported.
    for (const { failure } of [this.#subject, this.#peer])
      if (failure?.side === 'local' && !EXPECTED.has(failure.code))
        fail(`a session ended although both ends follow the protocol: ${failure.stack}`);
  }

  #step(): void {
    const choices = this.#choices;
    choices.weighted<() => void>([
      [66, () => this.#peer.act(4)],
      [22, () => this.#subject.act(24)],
      [9, () => this.#wait(choices.pick([1, 110, 250, 1_000]))],
      [1, () => this.#wait(choices.pick([5_000, 61_000]))],
      [1, () => this.#cut()],
    ])();
  }

  #wait(ms: number): void {
    this.#now += ms;
    for (const { core } of [this.#subject, this.#peer])
      if (core.nextTimeout() <= this.#now) unthrown(() => core.handleTimeout(this.#now));
    this.#settle();
  }

  /** Delivers everything until both ends are idle. */
  #settle(): void {
    for (let effects = 0; this.#move(Infinity); effects++)
      holds(effects < MAX_EFFECTS, 'the two sessions never come to rest');
    holds(this.#subject.core.queuedBytes >= 0, 'the number of queued bytes is negative');
    this.#disconnect();
  }

  /** One end has asked to close the connection: both are notified. */
  #disconnect(): void {
    const ends = [this.#server, this.#client];
    const closeCode = ends.find((end) => end.closeCode !== undefined)?.closeCode;
    if (closeCode === undefined) return;
    for (const end of ends) {
      end.closeCode = undefined;
      unthrown(() => end.core.handleDisconnected(closeCode, '', this.#now));
      end.takeEvents();
    }
  }

  /** @param most frames that each end may write. Returns whether there was anything to do. */
  #move(most: number): boolean {
    const [subject, peer] = [this.#subject, this.#peer];
    let moved = subject.takeEvents();
    moved = peer.takeEvents() || moved;
    for (let i = 0; i < most; i++) {
      const frame = unthrown(() => peer.core.pollTransmit());
      if (frame === undefined) break;
      moved = true;
      this.#carry(typeof frame === 'string' ? frame : frame.slice());
      subject.takeEvents();
    }
    for (let i = 0; i < most; i++) {
      const frame = unthrown(() => subject.core.pollTransmit());
      if (frame === undefined) break;
      moved = true;
      const copy = typeof frame === 'string' ? frame : frame.slice();
      unthrown(() => peer.core.handleMessage(copy, this.#now));
      peer.takeEvents();
    }
    return moved;
  }

  /** Carries a frame from the peer to the session under test. */
  #carry(frame: Uint8Array | string): void {
    if (this.#choices.oneIn(DAMAGE)) {
      this.#isDamaged = true;
      for (const damaged of damage(frame, this.#choices)) this.#deliver(damaged);
    } else this.#deliver(frame);
  }

  #deliver(frame: Uint8Array | string): void {
    const { core } = this.#subject;
    const wasEnded = this.#subject.hasEnded;
    this.#tap?.(frame);
    unthrown(() => core.handleMessage(frame, this.#now));
    this.#subject.takeEvents();
    countFrame(this.figures, frame, core.channel.hasLink, !wasEnded && !this.#subject.hasEnded);
  }

  /** Loses the connection with frames in flight; it comes back if resume was negotiated. */
  #cut(): void {
    const [server, client] = [this.#server.core, this.#client.core];
    const isResumable = client.negotiated?.extensions['resume'] !== undefined;
    if (!isResumable || client.state !== 'established' || server.state !== 'established') return;
    this.#peer.act(4);
    this.#subject.act(24);
    this.#move(this.#choices.below(3));
    for (const core of [server, client])
      unthrown(() => core.handleDisconnected(CloseCode.ABNORMAL, 'cut', this.#now));
    this.#peer.act(4);
    this.#subject.act(24);
    for (const end of [this.#server, this.#client]) end.takeEvents();
    unthrown(() => client.handleConnected(this.#now));
    const frame = unthrown(() => client.pollTransmit());
    if (frame === undefined) return;
    const hello = typeof frame === 'string' ? decodeControlJson(frame) : decodeControl(frame.slice());
    if (hello.type !== 'HELLO' || hello.payload.resume === undefined) return;
    const { payload } = hello;
    const refused = unthrown(() => server.checkResume(payload, this.#subprotocol));
    if (refused !== undefined) {
      if (!this.#isDamaged) fail(`a session was not resumed: ${refused}`);
      return;
    }
    const { resume } = payload;
    unthrown(() => server.resume(resume as NonNullable<typeof resume>, this.#now));
  }
}

/** Errors of sessions that have nothing in common, or too little time. */
const EXPECTED = new Set(['rejected', 'timeout', 'bad_acceptance', 'session_lost', 'session_closed']);

/** The frames that arrive instead of a damaged one. */
export function damage(frame: Uint8Array | string, choices: Choices): (Uint8Array | string)[] {
  const bytes = typeof frame === 'string' ? new Uint8Array(Buffer.from(frame)) : frame;
  const changed = mutate(bytes, choices, { tokens: [], other: bytes, maxLength: 8_192 });
  const other = typeof frame === 'string' ? Buffer.from(changed).toString() : changed;
  return choices.pick([[other], [other], [frame, frame], [other, frame], []]);
}

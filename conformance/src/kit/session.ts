import type { Encoding } from '../subject.js';
import { type Body, Coder, type Fields, packed, unpacked } from './bodies.js';
import { type Asked, type Call, isOver } from './calls.js';
import type { Windows } from './credit.js';
import { Deviation, must, NotApplicable } from './deviation.js';
import { type BodyToSend, bodyFrames, frame, Kind } from './frames.js';
import { type GoesOn, Link } from './link.js';
import { countIn, jsonIn, mapIn } from './members.js';
import type { Agreement } from './offers.js';
import { isUnknown, type UnknownTest } from './unknown.js';
import { Changes } from './waiting.js';
import type { Closed, Incoming, Wire } from './wire.js';

/** One session with the peer, over one or more connections: what scenarios work with. */

/** The wish that a peer under test has to fulfil; README.md lists them. */
export type Wish = Fields & { readonly test: string };

/** The answer to `tally`. */
export interface Tally {
  readonly messages: number;
  readonly crc: number;
  readonly cancelled: number;
  readonly undelivered?: readonly Fields[];
}

const MAX_STREAMS_TO_FILL = 2_000;

interface SessionOptions {
  /** The kit is the client. */
  readonly isClient: boolean;
  readonly timeoutMs: number;
  readonly encoding: Encoding | undefined;
  /** How the peer answers a test that it does not know. */
  readonly unknown: UnknownTest;
  /** Resumes the session over another connection, and returns how many frames the peer has received. */
  readonly resume: (session: Session) => Promise<{ wire: Wire; received: number }>;
}

export class Session {
  readonly changes: Changes;
  link: Link;
  readonly coder: Coder;
  /** Answers PING at once; `false` leaves it to the scenario. */
  answersPings = true;
  /** Control messages of the peer that no scenario has taken. */
  readonly controls: Fields[] = [];
  wire: Wire;
  readonly agreement: Agreement;
  readonly #options: SessionOptions;
  /** Connections that the kit has lost on purpose. */
  cuts = 0;
  /** The connection is lost, and the next one does not carry the session yet. */
  #isCut = false;
  #resuming: Promise<void> | undefined;
  /** The peer has said CLOSE. */
  #closing: Fields | undefined;
  /** The frames of the kit that the peer had acknowledged when it said so. */
  confirmedAtClose: number | undefined;

  constructor(wire: Wire, agreement: Agreement, options: SessionOptions) {
    this.#options = options;
    this.changes = new Changes(options.timeoutMs);
    this.agreement = agreement;
    this.coder = new Coder(agreement.algorithms, options.encoding);
    this.wire = wire;
    this.link = new Link({
      isClient: options.isClient,
      own: agreement.own,
      peer: agreement.peer,
      coder: this.coder,
      names: agreement.names,
      context: agreement.context,
      changes: this.changes,
      send: (bytes) => this.wire.send(bytes),
      isConnected: () => !this.#isCut,
    });
    this.#attach(wire);
  }

  get id(): string {
    return this.agreement.sessionId;
  }

  get windows(): Windows {
    return this.agreement.peer;
  }

  /** How many streams of this end the peer allows at once. A scenario that needs all of them does not apply to a peer with very many. */
  streamsToFill(): number {
    const { maxStreams } = this.windows;
    if (maxStreams > MAX_STREAMS_TO_FILL) throw new NotApplicable(`the peer allows ${maxStreams} streams`);
    return maxStreams;
  }

  /** A control message of this end. */
  control(type: string, payload: Fields = {}): Uint8Array {
    return packed({ type, session_id: this.id, timestamp: Date.now(), payload });
  }

  // --- requests of the kit

  /** Sends a request with a wish. */
  async ask(wish: Wish, body: BodyToSend = { bytes: '' }): Promise<Call> {
    const call = this.link.openStream();
    call.wish = wish.test;
    await this.link.writeBody(Kind.REQUEST, call.id, { ...body, metadata: packed(wish) });
    return call;
  }

  /** Waits until a reply is over. */
  async over(
    call: Call,
    what = `the end of the reply on stream ${call.id}`,
    timeoutMs?: number,
  ): Promise<Call> {
    return await this.until(() => (isOver(call) ? call : undefined), what, timeoutMs);
  }

  /** The response to a wish. @throws {Deviation} if it is answered in another way. */
  async answer(wish: Wish, body?: BodyToSend): Promise<Body> {
    const call = await this.over(await this.ask(wish, body), `the response to "${wish.test}"`);
    return responseOf(call);
  }

  /** The bodies that the peer has received in this session. */
  async tally(): Promise<Tally> {
    const body = await this.answer({ test: 'tally' });
    const tally = jsonIn<Fields & Tally>(body);
    for (const name of ['messages', 'crc', 'cancelled']) countIn(tally, name, Number.NaN, body.content);
    return tally;
  }

  /** The response to a wish, as JSON. */
  async json(wish: Wish): Promise<unknown> {
    return jsonIn(await this.answer(wish));
  }

  /** @throws {NotApplicable} if the peer does not say that it can do this. */
  async requires(ability: string): Promise<void> {
    const { response } = await this.over(await this.ask({ test: 'abilities' }), 'the abilities of the peer');
    const abilities = response === undefined ? [] : jsonIn(response);
    if (!Array.isArray(abilities) || !abilities.includes(ability))
      throw new NotApplicable(`the peer does not list the ability ${ability}`);
  }

  /** The number of a name in frames of the kit, which is announced if it is a new one. */
  numberOf(name: string): number {
    const { number, frame: alias } = this.link.names.numberOf(name);
    if (alias !== undefined) this.link.write(alias);
    return number;
  }

  /** The next request of the peer. */
  async asked(what: string): Promise<Asked> {
    return await this.until(() => this.link.asked.shift(), what);
  }

  /** Answers a request of the peer with one response. */
  respond(id: number, body: BodyToSend): void {
    this.link.write(...bodyFrames(Kind.RESPONSE, id, body));
    this.link.answered(id);
  }

  /** Ends a reply to the peer. */
  end(id: number): void {
    this.link.write(frame(Kind.END, id));
    this.link.answered(id);
  }

  // --- waiting

  /** @throws {NotApplicable} if the peer does not know a test that it was asked for. */
  async until<T>(look: () => T | undefined, what: string, timeoutMs?: number): Promise<T> {
    return await this.changes.until(
      () => {
        for (const call of this.link.calls.values())
          if (isUnknown(call, this.#options.unknown))
            throw new NotApplicable(`the peer does not know the test ${call.wish}`);
        const value = look();
        if (value === undefined && this.wire.closed !== undefined && !this.#isCut)
          throw new Deviation(
            `the peer closed with ${this.wire.closed.code} "${this.wire.closed.reason}", expected ${what}`,
          );
        return value;
      },
      what,
      timeoutMs,
    );
  }

  /** The next control message of a type. */
  async controlOf(type: string): Promise<Fields> {
    return await this.until(() => {
      const index = this.controls.findIndex((message) => message['type'] === type);
      return index < 0 ? undefined : this.controls.splice(index, 1)[0];
    }, type);
  }

  /** The peer has read all that was sent before. */
  async ping(): Promise<void> {
    this.wire.send(this.control('PING'));
    await this.controlOf('PONG');
  }

  /** The session still works: nothing that came before has harmed it. */
  async stillWorks(why: string): Promise<void> {
    const { content } = await this.answer({ test: 'echo' }, { bytes: 'still there?' });
    must(
      Buffer.from(content).toString() === 'still there?',
      `the session does not continue after ${why}`,
      content,
    );
  }

  /** Sends what breaks the protocol, and waits until the peer closes. */
  async violate(
    bytes: Incoming | readonly Incoming[],
    codes: readonly number[],
    why: string,
  ): Promise<Closed> {
    for (const each of typeof bytes === 'string' || bytes instanceof Uint8Array ? [bytes] : bytes)
      this.wire.send(each);
    return await this.wire.end(codes, why);
  }

  // --- connections

  /**
   * Loses the connection and continues over the next one, while the scenario waits for something else.
   *
   * @param frames of the peer that are lost with it, if they are not acknowledged.
   */
  cut(frames = 0): void {
    if (this.#isCut) return;
    this.#isCut = true;
    this.cuts++;
    this.wire.cut();
    this.link.lose(frames);
    this.#resuming = this.resume().catch((error: unknown) => this.changes.fail(error));
  }

  #attach(wire: Wire): void {
    this.wire = wire;
    wire.onMessage((message) => {
      try {
        this.#handle(message);
      } catch (error) {
        this.changes.fail(error);
      }
      this.changes.notify();
    });
    wire.socket.on('close', () => this.changes.notify());
  }

  #handle(message: Incoming): void {
    if (typeof message === 'string') throw new Deviation('a text message in m2m.v1', message);
    const first = message[0] ?? 0;
    if (first >= 0x10 && first <= 0x1f) {
      must(
        this.#closing === undefined || (first & 0x0f) > Kind.ALIAS,
        'a counted frame after CLOSE',
        message,
      );
      this.link.handle(message);
      return;
    }
    const isMap = (first >= 0x80 && first <= 0x8f) || first === 0xde || first === 0xdf;
    must(isMap, 'neither a link frame nor a control message', message);
    const fields = unpacked(message, 'a control message');
    checkEnvelope(fields, this.id, message);
    if (fields['type'] === 'PING' && this.answersPings) this.wire.send(this.control('PONG'));
    if (fields['type'] === 'CLOSE') {
      this.#closing = fields;
      this.confirmedAtClose = this.link.confirmed;
    }
    this.controls.push(fields);
  }

  /** The peer has to say CLOSE again, on the next connection. */
  expectsCloseAgain(): void {
    this.#closing = undefined;
  }

  /** Waits for CLOSE of the peer, and takes part in it. */
  async closedByPeer(): Promise<Fields> {
    const message = await this.controlOf('CLOSE');
    this.link.acknowledge();
    this.wire.send(this.control('CLOSE', { reason: 'NORMAL', message: '' }));
    return mapIn(message, 'payload', {});
  }

  /** Closes in order and waits for the end. */
  async close(payload: Fields = { reason: 'NORMAL', message: '' }): Promise<Closed> {
    this.wire.send(this.control('CLOSE', payload));
    await this.controlOf('CLOSE');
    this.link.acknowledge();
    await this.until(
      () => this.link.confirmed >= this.link.written.length || undefined,
      'the acknowledgement of everything after CLOSE',
    );
    this.wire.close(1000, 'NORMAL');
    return await this.wire.end([1000], 'an orderly close');
  }

  /** Continues over another connection, to which `ACCEPT` has agreed. */
  async resume(): Promise<void> {
    const { wire, received } = await this.#options.resume(this);
    this.goOnOver(wire, received);
  }

  /** Continues over a connection on which HELLO and ACCEPT were exchanged. @param received by the peer. */
  goOnOver(wire: Wire, received: number): void {
    this.wire = wire;
    this.#isCut = false;
    this.link.resume(received);
    this.link.acknowledge();
    this.#attach(wire);
    this.changes.notify();
  }

  /** Continues over another connection on which both ends begin with a new link. */
  beginAnew(wire: Wire, goesOn: GoesOn = {}): void {
    this.wire = wire;
    this.#isCut = false;
    this.link = this.link.rebuilt(goesOn);
    this.#attach(wire);
    this.changes.notify();
  }

  /** Loses the connection and stays without one until the scenario continues. */
  lose(): void {
    this.#isCut = true;
    this.wire.cut();
  }

  /** The peer ends the connection without a close, and the session continues over another one. */
  async survives(why: string): Promise<void> {
    await this.wire.end([1006], why);
    this.lose();
    await this.resume();
    await this.stillWorks(why);
  }

  /** Ends the session in any state, so that the next scenario starts from nothing. */
  async dispose(): Promise<void> {
    this.link.onCounted = undefined;
    this.link.onWritten = undefined;
    await this.#resuming;
    if (this.wire.closed !== undefined) return;
    this.wire.send(this.control('CLOSE', { reason: 'NORMAL', message: '', code: 'conformance' }));
    this.link.acknowledge();
    await this.wire.changes.until(() => this.#closing ?? this.wire.closed, 'CLOSE', 200).catch(() => {});
    this.wire.close(1000);
    await this.wire.end(undefined, '', 500).catch(() => this.wire.cut());
  }
}

/** The response of a call. @throws {Deviation} if it was answered in another way. */
export function responseOf(call: Call): Body {
  if (call.error !== undefined)
    throw new Deviation(`stream ${call.id} was answered with the error ${JSON.stringify(call.error)}`);
  must(call.response !== undefined, `stream ${call.id} was answered with parts, expected one response`);
  must(call.parts.length === 0, `stream ${call.id} was answered with parts and a response`);
  return call.response;
}

/** @throws {Deviation} if a control message is not as section 2 says. */
export function checkEnvelope(fields: Fields, sessionId: string | null, bytes: Uint8Array | string): void {
  const { type, timestamp, payload } = fields;
  const id = fields['session_id'] ?? null;
  must(typeof type === 'string', 'a control message has no type', bytes);
  must(id === sessionId || id === null, `session_id is ${JSON.stringify(id)}`, bytes);
  must(
    typeof timestamp === 'number' && Number.isInteger(timestamp),
    'timestamp is not a whole number',
    bytes,
  );
  must(
    payload === undefined || (typeof payload === 'object' && payload !== null),
    'payload is not a map',
    bytes,
  );
}

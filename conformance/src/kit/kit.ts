import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Encoding } from '../subject.js';
import { type Fields, packed, unpacked } from './bodies.js';
import { Deviation, must, mustEqual, NotApplicable } from './deviation.js';
import { Dialer, type Door, type Upgrade } from './door.js';
import { DialedStream } from './http-dialer.js';
import { acceptIn, countIn, helloIn, mapIn, namesIn, type Ticket, textIn, ticketIn } from './members.js';
import { type Agreement, contextOf, extensionsOf, helloOf, type Offer, windowsOf } from './offers.js';
import { checkEnvelope, Session } from './session.js';
import { NONE_PROBED, type UnknownTest } from './unknown.js';
import type { Wire } from './wire.js';

/** The largest body that the kit states as a server. */
const LARGEST_PAYLOAD = 16_777_216;
const HANDSHAKE = new Set(['HELLO', 'WAIT', 'ACCEPT', 'REJECT']);
const KNOWN = new Set([...HANDSHAKE, 'AUTH', 'GOAWAY', 'READY', 'PING', 'PONG', 'CLOSE', 'DATA']);

/** The kit of a scenario: sessions with the peer under test, and connections on which it can break the rules. */
export class Kit {
  readonly door: Door;
  /** The vocabulary for TOKEN_NATIVE, if it is there. */
  readonly encoding: Encoding | undefined;
  /** Connections to a server are streams over HTTP. @default WebSockets */
  isOverHttp = false;
  readonly #open: { dispose(): Promise<void> }[] = [];
  readonly #unknown: UnknownTest;

  /** @param unknown how this peer answers a test that it does not know. */
  constructor(door: Door, encoding: Encoding | undefined, unknown: UnknownTest = NONE_PROBED) {
    this.door = door;
    this.encoding = encoding;
    this.#unknown = unknown;
  }

  get dialer(): Dialer {
    if (this.door instanceof Dialer) return this.door;
    throw new NotApplicable('this scenario tests servers');
  }

  /** A connection without a session. */
  async connect(upgrade?: Upgrade): Promise<Wire> {
    if (this.isOverHttp) return (await this.stream()).wire;
    const wire = await this.door.open(upgrade);
    this.#open.push({ dispose: async () => wire.cut() });
    return wire;
  }

  /** A connection over HTTP to a server. @param hello frames in the body of the request for it. */
  async stream(
    hello: readonly Uint8Array[] = [],
    headers: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly stream: DialedStream; readonly wire: Wire }> {
    const { url, timeoutMs } = this.dialer;
    const opened = await DialedStream.open(url, timeoutMs, hello, headers);
    this.#open.push({ dispose: async () => opened.wire.cut() });
    return opened;
  }

  /** A connection of a client under test, and its HELLO. */
  async greeted(): Promise<Greeted> {
    return await greetedOn(await this.connect());
  }

  /**
   * A session.
   *
   * @throws {NotApplicable} if the peer does not agree on the algorithms and extensions that are offered.
   */
  async session(offer: Offer = {}): Promise<Session> {
    const isClient = this.door.peer === 'server';
    const { wire, agreement } = isClient ? await this.#dial(offer) : await this.#accept(offer);
    const session = new Session(wire, agreement, {
      isClient,
      timeoutMs: this.door.timeoutMs,
      encoding: this.encoding,
      unknown: this.#unknown,
      resume: (lost) => this.resume(lost),
    });
    this.#open.push(session);
    return session;
  }

  /** Begins a session as soon as the peer, which is restarting, accepts one. */
  async sessionAnew(offer: Offer = {}): Promise<Session> {
    const deadline = Date.now() + this.door.timeoutMs;
    for (;;) {
      try {
        return await this.session(offer);
      } catch (error) {
        if (!(error instanceof Deviation) || Date.now() > deadline) throw error;
        await pause(20);
      }
    }
  }

  /** Ends everything that the scenario has left open. */
  async dispose(): Promise<void> {
    for (const each of this.#open.splice(0).reverse()) await each.dispose();
  }

  async #dial(offer: Offer): Promise<{ wire: Wire; agreement: Agreement }> {
    const wire = await this.connect();
    const hello = helloOf(offer);
    wire.send(envelope('HELLO', null, hello));
    const { fields, bytes } = await controlOn(wire, 'ACCEPT');
    const accept = acceptIn(payloadOf(fields), bytes);
    const sessionId = fields['session_id'];
    must(typeof sessionId === 'string' && sessionId !== '', 'ACCEPT has no session_id', bytes);
    return { wire, agreement: this.#agreed(offer, hello, accept, sessionId, bytes) };
  }

  async #accept(offer: Offer): Promise<{ wire: Wire; agreement: Agreement }> {
    const { wire, hello, bytes } = await this.greeted();
    const sessionId = `sess_${randomUUID()}`;
    const accept = this.acceptOf(offer, hello);
    wire.send(envelope('ACCEPT', sessionId, accept));
    return { wire, agreement: this.#agreed(offer, hello, accept, sessionId, bytes) };
  }

  /** The answer to a HELLO of the client under test. */
  acceptOf(offer: Offer, hello: Fields): Fields {
    const { algorithms = ['NONE'], encodings = [] } = offer;
    const theirs = mapIn(hello, 'extensions', {});
    const common = namesIn(hello, 'algorithms').filter((name) => algorithms.includes(name));
    const encoding = encodings.find((name) => namesIn(hello, 'encodings').includes(name)) ?? null;
    const extensions = Object.entries(extensionsOf(offer)).filter(([name]) => name in theirs);
    // Beside `std` null would mean the standard encoding.
    const none = extensions.some(([name]) => name === 'std') ? '' : null;
    return {
      version: textIn(hello, 'version', '').startsWith('3') ? '3.0' : '1.0',
      algorithms: encoding === null ? common.filter((name) => name !== 'TOKEN_NATIVE') : common,
      encoding: encoding ?? none,
      security_scanning: false,
      session_timeout_ms: 300_000,
      max_payload_size: Math.min(countIn(hello, 'max_payload_size', 0) || LARGEST_PAYLOAD, LARGEST_PAYLOAD),
      limits: offer.limits ?? {},
      extensions: Object.fromEntries(extensions),
      ...(extensions.some(([name]) => name === 'resume') && {
        resume: this.#ticket(false, 0, offer.windowMs),
      }),
    };
  }

  #agreed(offer: Offer, hello: Fields, accept: Fields, sessionId: string, bytes: Uint8Array): Agreement {
    const mine = extensionsOf(offer);
    const theirs = (this.door.peer === 'server' ? accept : hello)['extensions'] as Record<string, string>;
    const agreed = Object.keys(mapIn(accept, 'extensions', {}));
    for (const name of Object.keys(mine))
      if (!agreed.includes(name)) throw new NotApplicable(`the peer does not speak ${name}`);
    const algorithms = namesIn(accept, 'algorithms', bytes);
    for (const name of offer.algorithms ?? ['NONE'])
      if (!algorithms.includes(name)) throw new NotApplicable(`the peer does not speak ${name}`);
    return {
      sessionId,
      algorithms,
      encoding: (accept['encoding'] || undefined) as string | undefined,
      names: agreed.includes('agents') ? 'agents' : agreed.includes('replies') ? 'replies' : 'none',
      own: windowsOf(mine['link'] ?? '{}'),
      peer: windowsOf(theirs['link'] ?? '{}', bytes),
      context: contextOf(mine['context'], theirs['context'], bytes),
      hello,
      accept,
      token: agreed.includes('resume') ? ticketIn(accept, bytes).token : '',
      attempt: 1,
    };
  }

  // --- resuming

  #ticket(recovered: boolean, received = 0, window = 120_000): Fields {
    return { token: randomUUID(), window_ms: window, recovered, received };
  }

  /** Resumes a session over another connection. */
  async resume(session: Session): Promise<{ wire: Wire; received: number }> {
    const { agreement } = session;
    if (this.door.peer === 'client') return this.resumeOn(session, await this.greeted());
    const { wire, ticket, bytes } = await this.offerToResume(session);
    const { recovered, received, token } = ticket;
    must(recovered, 'the server has not recovered the session', bytes);
    must(token !== agreement.token, 'the token of a resumed session is not a new one', bytes);
    agreement.token = token;
    return { wire, received };
  }

  /** Lets a client under test resume its session on this connection. */
  resumeOn(session: Session, { wire, hello, bytes }: Greeted): { wire: Wire; received: number } {
    const { agreement, link } = session;
    const resume = hello['resume'] as Fields | undefined;
    must(resume !== undefined, 'the client does not resume the session of a lost connection', bytes);
    mustEqual(resume['session_id'], session.id, 'resume.session_id', bytes);
    mustEqual(resume['token'], agreement.token, 'resume.token', bytes);
    const [attempt, received] = [countIn(resume, 'attempt', 0, bytes), countIn(resume, 'received', 0, bytes)];
    must(attempt > agreement.attempt - 1, 'resume.attempt does not grow', bytes);
    agreement.attempt = attempt + 1;
    const { reason } = agreement;
    const ticket: Fields = {
      ...this.#ticket(true, link.received),
      ...(reason === undefined ? {} : { reason }),
    };
    agreement.token = ticket['token'] as string;
    wire.send(envelope('ACCEPT', session.id, { ...agreement.accept, resume: ticket }));
    return { wire, received };
  }

  /** Sends HELLO with an offer to resume, as it is or changed, and returns the answer. */
  async offerToResume(
    session: Session,
    change: { readonly resume?: Fields; readonly hello?: Fields } = {},
  ): Promise<{ wire: Wire; ticket: Ticket; bytes: Uint8Array }> {
    const wire = await this.greetToResume(session, change);
    const { fields, bytes } = await controlOn(wire, 'ACCEPT');
    return { wire, ticket: ticketIn(acceptIn(payloadOf(fields), bytes), bytes), bytes };
  }

  async greetToResume(
    session: Session,
    change: { readonly resume?: Fields; readonly hello?: Fields } = {},
  ): Promise<Wire> {
    const { agreement, link } = session;
    const wire = await this.connect();
    const resume = {
      session_id: session.id,
      token: agreement.token,
      received: link.received,
      attempt: agreement.attempt++,
      ...change.resume,
    };
    wire.send(envelope('HELLO', null, { ...agreement.hello, ...change.hello, resume }));
    return wire;
  }
}

export const envelope = (type: string, sessionId: string | null, payload: Fields): Uint8Array =>
  packed({ type, session_id: sessionId, timestamp: Date.now(), payload });

/** The payload of a control message, which {@link checkEnvelope} has looked at: without one it is empty. */
export const payloadOf = (fields: Fields): Fields => mapIn(fields, 'payload', {});

/** A connection of a client under test, and the payload of its HELLO. */
export interface Greeted {
  readonly wire: Wire;
  readonly hello: Fields;
  readonly bytes: Uint8Array;
}

export async function greetedOn(wire: Wire): Promise<Greeted> {
  const { fields, bytes } = await controlOn(wire, 'HELLO');
  return { wire, hello: helloIn(payloadOf(fields), bytes), bytes };
}

/** The fields of a control message, and its bytes. */
export interface Control {
  readonly fields: Fields;
  readonly bytes: Uint8Array;
}

/** The next control message of the handshake, which must be of this type. WAIT and unknown types are skipped. */
export async function controlOn(wire: Wire, type: string): Promise<Control> {
  for (;;) {
    const bytes = await wire.next(type);
    must(typeof bytes !== 'string', `a text message, expected ${type}`, bytes);
    const fields = unpacked(bytes, type);
    const isSkipped = fields['type'] === 'WAIT' || !KNOWN.has(String(fields['type']));
    must(
      (isSkipped && type !== 'HELLO') || fields['type'] === type,
      `${String(fields['type'])}, expected ${type}`,
      bytes,
    );
    const id = (fields['session_id'] ?? null) as string | null;
    checkEnvelope(fields, type === 'ACCEPT' ? id : null, bytes);
    if (!isSkipped) return { fields, bytes };
  }
}

/** A message of this type after ACCEPT, among all else that an established session may say. */
export async function saidOn(wire: Wire, type: string): Promise<Control> {
  for (;;) {
    const bytes = await wire.next(type);
    must(typeof bytes !== 'string', `a text message, expected ${type}`, bytes);
    const first = bytes[0] ?? 0;
    if (first >= 0x10 && first <= 0x1f) continue;
    const fields = unpacked(bytes, type);
    must(!HANDSHAKE.has(String(fields['type'])), `${String(fields['type'])}, expected ${type}`, bytes);
    if (fields['type'] === type) return { fields, bytes };
  }
}

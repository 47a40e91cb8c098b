import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Encoding } from '../subject.js';
import { type Fields, packed, unpacked } from './bodies.js';
import { Deviation, must, mustEqual, NotApplicable } from './deviation.js';
import { Dialer, type Door, type Upgrade } from './door.js';
import { type Agreement, contextOf, extensionsOf, helloOf, type Offer, windowsOf } from './offers.js';
import { checkEnvelope, Session } from './session.js';
import type { Wire } from './wire.js';

/** What a scenario gets: sessions with the peer under test, and connections on which it can break the rules. */
export class Kit {
  readonly door: Door;
  /** The vocabulary for TOKEN_NATIVE, if it is there. */
  readonly encoding: Encoding | undefined;
  readonly #open: { dispose(): Promise<void> }[] = [];

  constructor(door: Door, encoding: Encoding | undefined) {
    this.door = door;
    this.encoding = encoding;
  }

  get dialer(): Dialer {
    if (this.door instanceof Dialer) return this.door;
    throw new NotApplicable('this scenario tests servers');
  }

  /** A connection without a session. */
  async connect(upgrade?: Upgrade): Promise<Wire> {
    const wire = await this.door.open(upgrade);
    this.#open.push({ dispose: async () => wire.cut() });
    return wire;
  }

  /** A connection of a client under test, and its HELLO. */
  async greeted(): Promise<{ wire: Wire; hello: Fields; bytes: Uint8Array }> {
    const wire = await this.connect();
    const { fields, bytes } = await controlOn(wire, 'HELLO', null);
    return { wire, hello: fields, bytes };
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
    const wire = await this.door.open();
    this.#open.push({ dispose: async () => wire.cut() });
    const hello = helloOf(offer);
    wire.send(envelope('HELLO', null, hello));
    const { fields, bytes } = await controlOn(wire, 'ACCEPT');
    const accept = payloadOf(fields, bytes);
    const sessionId = fields['session_id'];
    must(typeof sessionId === 'string' && sessionId !== '', 'ACCEPT has no session_id', bytes);
    return { wire, agreement: this.#agreed(offer, hello, accept, sessionId, bytes) };
  }

  async #accept(offer: Offer): Promise<{ wire: Wire; agreement: Agreement }> {
    const { wire, hello: fields, bytes } = await this.greeted();
    const hello = payloadOf(fields, bytes);
    const sessionId = `sess_${randomUUID()}`;
    const accept = this.acceptOf(offer, hello);
    wire.send(envelope('ACCEPT', sessionId, accept));
    return { wire, agreement: this.#agreed(offer, hello, accept, sessionId, bytes) };
  }

  /** The answer to a HELLO of the client under test. */
  acceptOf(offer: Offer, hello: Fields): Fields {
    const { algorithms = ['NONE'], encodings = [] } = offer;
    const theirs = (hello['extensions'] ?? {}) as Fields;
    const has = (list: unknown, name: string) => Array.isArray(list) && list.includes(name);
    const common = (hello['algorithms'] as string[]).filter((name) => algorithms.includes(name));
    const encoding = encodings.find((name) => has(hello['encodings'], name)) ?? null;
    return {
      version: '1.0',
      algorithms: encoding === null ? common.filter((name) => name !== 'TOKEN_NATIVE') : common,
      encoding,
      security_scanning: false,
      session_timeout_ms: 300_000,
      max_payload_size: 16_777_216,
      limits: offer.limits ?? {},
      extensions: Object.fromEntries(Object.entries(extensionsOf(offer)).filter(([name]) => name in theirs)),
      resume: this.#ticket(false),
    };
  }

  #agreed(offer: Offer, hello: Fields, accept: Fields, sessionId: string, bytes: Uint8Array): Agreement {
    const mine = extensionsOf(offer);
    const theirs = (this.door.peer === 'server' ? accept : hello)['extensions'] as Record<string, string>;
    const agreed = Object.keys(accept['extensions'] as Fields);
    for (const name of Object.keys(mine))
      if (!agreed.includes(name)) throw new NotApplicable(`the peer does not speak ${name}`);
    const algorithms = accept['algorithms'] as string[];
    for (const name of offer.algorithms ?? ['NONE'])
      if (!algorithms.includes(name)) throw new NotApplicable(`the peer does not speak ${name}`);
    const resume = accept['resume'] as Fields | undefined;
    return {
      sessionId,
      algorithms,
      encoding: (accept['encoding'] ?? undefined) as string | undefined,
      names: agreed.includes('agents') ? 'agents' : agreed.includes('replies') ? 'replies' : 'none',
      own: windowsOf(mine['link'] ?? '{}'),
      peer: windowsOf(theirs['link'] ?? '{}', bytes),
      context: contextOf(mine['context'], theirs['context'], bytes),
      hello,
      accept,
      token: String(resume?.['token'] ?? ''),
      attempt: 1,
    };
  }

  // --- resuming

  #ticket(recovered: boolean, received = 0): Fields {
    return { token: randomUUID(), window_ms: 120_000, recovered, received };
  }

  /** Resumes a session over another connection. */
  async resume(session: Session): Promise<{ wire: Wire; received: number }> {
    const { agreement, link } = session;
    if (this.door.peer === 'server') {
      const { wire, accept, bytes } = await this.offerToResume(session);
      checkTicket(accept, bytes);
      const { recovered, received, token } = accept['resume'] as Fields;
      must(recovered === true, 'the server has not recovered the session', bytes);
      must(token !== agreement.token, 'the token of a resumed session is not a new one', bytes);
      agreement.token = token as string;
      return { wire, received: received as number };
    }
    const { wire, hello, bytes } = await this.greeted();
    const resume = payloadOf(hello, bytes)['resume'] as Fields | undefined;
    must(resume !== undefined, 'the client does not resume the session of a lost connection', bytes);
    mustEqual(resume['session_id'], session.id, 'resume.session_id', bytes);
    mustEqual(resume['token'], agreement.token, 'resume.token', bytes);
    const { attempt, received } = resume;
    must(
      typeof attempt === 'number' && attempt > agreement.attempt - 1,
      'resume.attempt does not grow',
      bytes,
    );
    must(typeof received === 'number', 'resume.received is not a number', bytes);
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
  ): Promise<{ wire: Wire; accept: Fields; bytes: Uint8Array }> {
    const wire = await this.greetToResume(session, change);
    const { fields, bytes } = await controlOn(wire, 'ACCEPT');
    return { wire, accept: payloadOf(fields, bytes), bytes };
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

/** @throws {Deviation} if `resume` of ACCEPT is not as section 5 says. */
export function checkTicket(accept: Fields, bytes: Uint8Array): void {
  const resume = accept['resume'] as Fields | undefined;
  must(
    typeof resume === 'object' && resume !== null,
    'ACCEPT has no resume although it was agreed on',
    bytes,
  );
  const { token, window_ms: window, recovered, received } = resume;
  must(typeof token === 'string' && token !== '', 'resume.token is not a text', bytes);
  must(typeof window === 'number' && window > 0, 'resume.window_ms is not a number above 0', bytes);
  must(typeof recovered === 'boolean', 'resume.recovered is not a boolean', bytes);
  must(typeof received === 'number' && received >= 0, 'resume.received is not a count', bytes);
}

export const envelope = (type: string, sessionId: string | null, payload: Fields): Uint8Array =>
  packed({ type, session_id: sessionId, timestamp: Date.now(), payload });

/** The payload of a control message, which must be a map. */
export function payloadOf(fields: Fields, bytes: Uint8Array): Fields {
  const payload = fields['payload'];
  must(typeof payload === 'object' && payload !== null, 'the message has no payload', bytes);
  return payload as Fields;
}

/** The next control message, which must be of this type. @param sessionId unchecked if it is left out. */
export async function controlOn(
  wire: Wire,
  type: string,
  sessionId?: null,
): Promise<{ fields: Fields; bytes: Uint8Array }> {
  for (;;) {
    const bytes = await wire.next(type);
    must(typeof bytes !== 'string', `a text message, expected ${type}`, bytes);
    const fields = unpacked(bytes, type);
    checkEnvelope(fields, sessionId === null ? null : ((fields['session_id'] ?? null) as null), bytes);
    if (fields['type'] === 'WAIT') continue;
    must(fields['type'] === type, `${JSON.stringify(fields['type'])}, expected ${type}`, bytes);
    return { fields, bytes };
  }
}

import { setTimeout as pause } from 'node:timers/promises';
import { connect, type ProtocolError, type Session, type Undelivered } from '@parlance/client';
import WebSocket from 'ws';

/** Two agents that write numbered messages to each other and ask each other for streams, and account for all of it. */

/** Parts of each stream. */
const PARTS = 8;

/**
 * The messages that a session has received and sent. A session that is lost is followed by another one, whose numbers
 * begin again.
 */
interface Life {
  readonly number: number;
  sent: number;
  readonly told: Map<number, Undelivered['outcome']>;
  readonly heard: string[];
}

interface Stream {
  readonly text: string;
  readonly parts: string[];
  error?: ProtocolError;
}

export class Talker {
  readonly name: string;
  readonly lives: Life[] = [];
  readonly streams: Stream[] = [];
  /** Events that must not happen. */
  readonly faults: string[] = [];
  /** Sends that have failed, by life and number. */
  readonly failed = new Set<string>();
  readonly session: Session;
  #isTalking = true;
  readonly #talks: Promise<void>[] = [];

  private constructor(name: string, session: Session) {
    this.name = name;
    this.session = session;
  }

  static async dial(url: string, name: string): Promise<Talker> {
    const session = await connect(url, {
      WebSocket,
      token: `user-1/${name}`,
      agent: {},
      reconnect: { minDelayMs: 5, maxDelayMs: 100 },
      limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
      async *onRequest({ text }) {
        for (let i = 0; i < PARTS; i++) {
          yield partOf(text, i);
          await pause(4);
        }
      },
    });
    const talker = new Talker(name, session);
    talker.#listen();
    return talker;
  }

  /** Streams that were read to their end. */
  get whole(): number {
    return this.streams.filter(({ parts, error }) => error === undefined && parts.length === PARTS).length;
  }

  get life(): Life {
    return this.lives.at(-1) as Life;
  }

  get reports(): number {
    return this.lives.reduce((sum, { told }) => sum + told.size, 0);
  }

  #begin(): void {
    this.lives.push({ number: this.lives.length, sent: 0, told: new Map(), heard: [] });
  }

  #listen(): void {
    const { session } = this;
    this.#begin();
    session.on('reset', () => this.#begin());
    session.on('undelivered', ({ outcome, first, count }) => {
      const { told, sent } = this.life;
      if (first === undefined) this.faults.push('a report does not say which messages it is about');
      for (let number = first ?? 0; number < (first ?? 0) + count; number++) {
        if (told.has(number)) this.faults.push(`message ${number} was reported twice`);
        if (number > sent) this.faults.push(`message ${number} was reported and never sent`);
        told.set(number, outcome);
      }
    });
    void this.#hear();
  }

  /** Reading ends when a session is lost, and begins again with the next one. */
  async #hear(): Promise<void> {
    while (this.session.state !== 'closed') {
      try {
        for await (const { text } of this.session) this.life.heard.push(text);
      } catch {
        await pause(1);
      }
    }
  }

  talkTo(to: string): void {
    this.#talks.push(this.#write(to), this.#ask(to));
  }

  async #write(to: string): Promise<void> {
    while (this.#isTalking) {
      const { life } = this;
      const number = ++life.sent;
      await this.session.send(`${life.number} ${number}`, { to }).catch(() => {
        this.failed.add(`${life.number} ${number}`);
      });
      await pause(4);
    }
  }

  async #ask(to: string): Promise<void> {
    for (let i = 0; this.#isTalking; i++) {
      const stream: Stream = { text: `${this.name} ${i}`, parts: [] };
      this.streams.push(stream);
      try {
        for await (const { text } of this.session.stream(stream.text, { to })) stream.parts.push(text);
      } catch (error) {
        stream.error = error as ProtocolError;
      }
      await pause(stream.error === undefined ? 5 : 50);
    }
  }

  /** Says no more. Resolves when what was asked is answered. */
  async stop(): Promise<void> {
    this.#isTalking = false;
    await Promise.all(this.#talks);
  }
}

const partOf = (text: string, i: number) => `${text}: ${i}`;

/** Messages of the last life of `from` that `to` has neither heard nor been told the fate of. */
export function missing(from: Talker, to: Talker): string[] {
  const heard = new Set(to.lives.flatMap((life) => life.heard));
  const { number: life, sent, told } = from.life;
  return Array.from({ length: sent }, (_, i) => i + 1)
    .filter((number) => !told.has(number))
    .map((number) => `${life} ${number}`)
    .filter((text) => !heard.has(text) && !from.failed.has(text));
}

/** The promises that the talkers have broken, in words. */
export function faultsOf(from: Talker, to: Talker): string[] {
  const faults = [...from.faults];
  const all = to.lives.flatMap(({ heard }) => heard);
  if (new Set(all).size < all.length) faults.push(`${to.name} has heard a message twice`);
  for (const { heard } of to.lives) {
    let last: readonly number[] = [-1, 0];
    for (const text of heard) {
      const [life, number] = text.split(' ').map(Number) as [number, number];
      const [lastLife, lastNumber] = last as [number, number];
      if (life < lastLife || (life === lastLife && number < lastNumber))
        faults.push(`${to.name} has heard ${text} after ${last.join(' ')}`);
      last = [life, number];
    }
  }
  for (const { number: life, told } of from.lives)
    for (const [number, outcome] of told)
      if (outcome === 'not_sent' && all.includes(`${life} ${number}`))
        faults.push(`${to.name} has heard ${life} ${number}, which was reported as not sent`);
  for (const { text, parts, error } of from.streams) {
    const expected = Array.from({ length: PARTS }, (_, i) => partOf(text, i));
    const isPrefix = parts.every((part, i) => part === expected[i]);
    if (!isPrefix) faults.push(`stream ${text} had the parts ${parts.join(', ')}`);
    if (error === undefined && parts.length < PARTS) faults.push(`stream ${text} ended early`);
    if (error !== undefined && error.code === undefined) faults.push(`stream ${text}: ${String(error)}`);
  }
  return faults;
}

import { setTimeout as sleep } from 'node:timers/promises';
import { type ClientOptions, connect } from '@parlance/client';
import { isProtocolError } from '@parlance/protocol';
import WebSocket from 'ws';
import type { PythonPeers } from '../python/peers.js';
import type { ChaosSession } from '../session.js';
import type { Ledger } from './ledger.js';
import type { Question } from './node.js';
import { Pace } from './pace.js';

/** A client of a cluster that numbers all that it says, and tells the ledger what comes back. */

/** The methods by which a user reports events. */
export type UserLedger = Pick<
  Ledger,
  | 'opened'
  | 'lostSession'
  | 'say'
  | 'refused'
  | 'hear'
  | 'isQuiet'
  | 'ask'
  | 'part'
  | 'left'
  | 'ended'
  | 'failed'
> & {
  /** Everything that the user has said up to this number is handled, says its session. */
  flushed?(name: string, number: number): void;
};

export interface UserOptions {
  readonly url: string;
  readonly ledger: UserLedger;
  readonly name: string;
  readonly timers?: ClientOptions['timers'];
  readonly reconnect?: ClientOptions['reconnect'];
  /** @default that of the client */
  readonly transports?: ClientOptions['transports'];
  /** @default that of `ws` */
  readonly WebSocket?: ClientOptions['WebSocket'];
  /** Where the client is one in Python. @default it is ours, in this process */
  readonly python?: PythonPeers | undefined;
}

/** The activities of a user besides reading. */
export interface Habits {
  /** Average time between two messages, in milliseconds. @default none */
  readonly sayEveryMs?: number;
  /** Whether the times are equal, so that they can be measured. @default false */
  readonly isEven?: boolean;
  /** Share of the messages that are followed by `flush`. @default 0 */
  readonly flushed?: number;
  /** Asks one question after another. @default none */
  readonly ask?: {
    readonly paceMs: number;
    readonly minParts: number;
    readonly maxParts: number;
    /** Longest time between an answer and the next question, in milliseconds. */
    readonly thinkMs: number;
  };
}

/** Share of the replies that are left early. */
const LEFT = 0.05;

export class User {
  readonly name: string;
  readonly session: ChaosSession;
  /** The session has ended although neither end closed it. */
  readonly lost = new AbortController();
  pace: Pace | undefined;
  isAsking = false;
  readonly #ledger: UserLedger;
  readonly #work: Promise<void>[] = [];
  #isClosing = false;

  /** @throws {ProtocolError} if the first connection fails, which is not repeated. */
  static async open({ url, name, ledger, python, ...options }: UserOptions): Promise<User> {
    const limits = { messagesPerMinute: Infinity, bytesPerSecond: Infinity };
    const session =
      (await python?.connect(url, { token: name })) ??
      (await connect(url, { WebSocket, token: name, limits, ...options }));
    return new User(name, session, ledger);
  }

  private constructor(name: string, session: ChaosSession, ledger: UserLedger) {
    this.name = name;
    this.session = session;
    this.#ledger = ledger;
    const { id } = session;
    ledger.opened(name, id);
    const lose = (why: string) => {
      ledger.lostSession(name, why);
      this.lost.abort();
    };
    session.on('reset', ({ reason }) => lose(reason));
    session.on('error', ({ code }) => lose(code));
    session.on('state', (state) => {
      if (state === 'established' && session.id !== id) lose('another one took its place');
      if (state === 'closed' && !this.#isClosing) lose('it was closed');
    });
    this.#work.push(this.#read(id));
  }

  /** Does all of it until the signal; then what has begun is finished. */
  begin({ sayEveryMs, isEven = false, flushed = 0, ask }: Habits, until: AbortSignal): void {
    const over = AbortSignal.any([until, this.lost.signal]);
    const everyMs = ask?.paceMs ?? (isEven ? sayEveryMs : undefined);
    if (everyMs !== undefined) this.pace = new Pace(everyMs);
    if (sayEveryMs !== undefined) this.#work.push(this.#speak(sayEveryMs, isEven, flushed, over));
    if (ask === undefined) return;
    this.isAsking = true;
    this.#work.push(this.#ask(ask, over));
  }

  /** Waits until everything has come back. */
  async rest(): Promise<void> {
    await Promise.all(this.#work.slice(1));
    while (!this.#ledger.isQuiet(this.name)) await sleep(20);
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.session.close();
  }

  async #speak(everyMs: number, isEven: boolean, flushed: number, over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      await sleep(isEven ? everyMs : Math.random() * 2 * everyMs, undefined, { signal: over }).catch(
        () => {},
      );
      if (over.aborted) return;
      // It counts at once, because it may come back while the promise still waits.
      const number = this.#ledger.say(this.name);
      try {
        await this.session.send(String(number));
        if (Math.random() >= flushed) continue;
        await this.session.flush();
        this.#ledger.flushed?.(this.name, number);
      } catch (error) {
        this.#ledger.refused(this.name, codeOf(error));
      }
    }
  }

  async #read(id: string): Promise<void> {
    try {
      for await (const { text } of this.session) {
        if (this.session.id !== id) return;
        this.#ledger.hear(this.name, text);
        this.pace?.arrive(performance.now());
      }
    } catch {
      // The event `reset` or `error` says why.
    }
  }

  async #ask(ask: NonNullable<Habits['ask']>, over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const { paceMs, minParts, maxParts, thinkMs } = ask;
      const parts = minParts + Math.floor(Math.random() * (maxParts - minParts + 1));
      await this.#askOnce({ parts, paceMs }, Math.random() < LEFT ? Math.floor(parts / 2) : parts);
      await sleep(Math.random() * thinkMs);
      // That was no gap.
      this.pace?.pause();
    }
  }

  async #askOnce(question: Omit<Question, 'id'>, leaveAt: number): Promise<void> {
    const ledger = this.#ledger;
    const id = ledger.ask(this.name, question.parts);
    let got = 0;
    try {
      for await (const { text } of this.session.stream({ id, ...question })) {
        ledger.part(id, text);
        this.pace?.arrive(performance.now());
        if (++got > leaveAt) {
          ledger.left(id);
          break;
        }
      }
      ledger.ended(id);
    } catch (error) {
      ledger.failed(id, codeOf(error));
      // A user who is refused asks again a little later.
      await sleep(50);
    }
  }
}

function codeOf(error: unknown): string {
  return isProtocolError(error) ? error.code : String(error);
}

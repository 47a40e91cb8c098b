import { setImmediate } from 'node:timers';
import { ProtocolError } from '@parlance/protocol';
import type { OneOfMany, RedisCalls } from './calls.js';
import type { Lane } from './connection.js';
import type { Script } from './lua.js';

/**
 * Calls in one command, and bytes of their arguments with which no further one is added. All of a command are answered with the last of
 * them, so that more would make the first ones wait.
 */
const MAX_CALLS = 8;
const MAX_BYTES = 64 * 1024;

interface Waiting extends OneOfMany {
  resolve(answer: unknown): void;
  reject(error: unknown): void;
}

/**
 * Calls of a script that are made in one tick of the event loop, and sent with one command: a command costs the node more than what
 * it carries.
 */
export class Together {
  readonly #calls: RedisCalls;
  readonly #script: Script;
  readonly #lane: Lane;
  /** Calls that may be unanswered. */
  readonly #max: number;
  #unanswered = 0;
  #waiting: Waiting[] = [];
  #bytes = 0;

  constructor(calls: RedisCalls, script: Script, max: number) {
    this.#calls = calls;
    this.#script = script;
    this.#max = max;
    this.#lane = { max, unanswered: 0 };
  }

  /** @throws {ProtocolError} as `RedisCalls.runBytes`; `timeout` also if too many calls are unanswered. */
  run(keys: readonly string[], args: readonly (string | Uint8Array)[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#unanswered >= this.#max)
        throw new ProtocolError('timeout', 'Redis has not answered earlier commands');
      this.#unanswered++;
      for (const { length } of args) this.#bytes += length;
      if (this.#waiting.length === 0) setImmediate(() => this.send());
      this.#waiting.push({ keys, args, resolve, reject });
      if (this.#waiting.length >= MAX_CALLS || this.#bytes >= MAX_BYTES) this.send();
    });
  }

  /** Sends what waits, before anything that is sent later. Returns whether there was something. */
  send(): boolean {
    const all = this.#waiting;
    if (all.length === 0) return false;
    this.#waiting = [];
    this.#bytes = 0;
    void this.#send(all);
    return true;
  }

  /** Never rejects. */
  async #send(all: readonly Waiting[]): Promise<void> {
    const answers = await this.#calls.runMany(this.#lane, this.#script, all);
    this.#unanswered -= all.length;
    for (const [i, { resolve, reject }] of all.entries()) {
      const answer = answers[i];
      if (answer?.status === 'fulfilled') resolve(answer.value);
      else reject(answer?.reason);
    }
  }
}

import { CloseCode } from '../base/close-codes.js';
import { decodeControl, encodeControl } from '../control/envelope.js';
import type { HelloMessage } from '../control/messages.js';
import type { Random } from './chaos/random.js';
import type { Simulation } from './simulation.js';

/** Faults that a client or server could have when a session changes to another connection. */
export const SWAP_FAULTS = [
  'the client reads on from the connection that it has left',
  'the server reads on from the connection that the client has left',
  'the client leaves its connection before the next one is open',
  'the client ends the connection that it leaves before the server knows',
  'HELLO states the count from when the connection was asked for',
  'HELLO states what is still under way',
  'HELLO repeats the last attempt',
  'the client drains',
] as const;
export type SwapFault = (typeof SWAP_FAULTS)[number];

const GOAWAY = { retryAfterMs: 1_000, deadline: 30_000, move: true };
const MAX_DELAY_MS = 40;

/**
 * Moves the client to another connection, step by step: the server asks for it, the client opens a connection while the
 * present one continues, and then leaves the present one.
 */
export class Swaps {
  readonly #simulation: Simulation;
  readonly #random: Random;
  readonly #fault: SwapFault | undefined;
  #next: 'ask' | 'wait' | 'open' | 'swap' = 'ask';
  #receivedAtOpening = 0;

  constructor(simulation: Simulation, random: Random, fault: SwapFault | undefined) {
    this.#simulation = simulation;
    this.#random = random;
    this.#fault = fault;
  }

  /** The connection is lost, or its page. */
  lose(): void {
    this.#next = 'ask';
  }

  /** The client has received GOAWAY with `move`. */
  handleAsked(): void {
    if (this.#next === 'wait') this.#next = 'open';
  }

  /** Returns the state in which the client was when the next connection was open. */
  step(): 'swapped' | 'without a connection' | undefined {
    const { client, server, now } = this.#simulation;
    switch (this.#next) {
      case 'ask':
        if (server.core.state !== 'established' || client.core.state !== 'established') return undefined;
        this.#next = 'wait';
        server.core.sendGoAway({ ...GOAWAY, move: this.#fault !== 'the client drains' }, now);
        return undefined;
      case 'wait':
        return undefined;
      case 'open':
        this.#next = 'swap';
        this.#receivedAtOpening = client.core.channel.framesReceived;
        if (this.#fault === 'the client leaves its connection before the next one is open')
          client.core.handleDisconnected(CloseCode.ABNORMAL, '', now);
        return undefined;
      case 'swap': {
        this.#next = 'ask';
        const { state } = client.core;
        this.#swap();
        return state === 'suspended' ? 'without a connection' : 'swapped';
      }
    }
  }

  #swap(): void {
    const random = this.#random;
    const fault = this.#fault;
    // Messages on the connection that is left may arrive before HELLO or after it.
    const delayMs = 1 + random.below(MAX_DELAY_MS);
    const endsFirst = fault === 'the client ends the connection that it leaves before the server knows';
    const closeCode = endsFirst ? CloseCode.NORMAL : random.chance(30) ? CloseCode.TIMEOUT : undefined;
    this.#simulation.swap({
      delayMs,
      ...(closeCode === undefined ? {} : { closeCode }),
      readsOn: fault?.includes('reads on')
        ? fault.startsWith('the client')
          ? 'client'
          : 'server'
        : undefined,
      changeHello: (hello) => this.#changed(hello),
    });
  }

  #changed(frame: Uint8Array): Uint8Array {
    const hello = decodeControl(frame) as HelloMessage;
    const { resume } = hello.payload;
    if (resume === undefined) throw new Error('HELLO does not resume');
    const { received, attempt } = resume;
    const change = {
      'HELLO states the count from when the connection was asked for': { received: this.#receivedAtOpening },
      'HELLO states what is still under way': { received: received + 1 },
      'HELLO repeats the last attempt': { attempt: attempt - 1 },
    };
    const changed = {
      ...resume,
      ...(Object.hasOwn(change, this.#fault ?? '') ? Reflect.get(change, this.#fault as string) : {}),
    };
    return encodeControl({ ...hello, payload: { ...hello.payload, resume: changed } });
  }
}

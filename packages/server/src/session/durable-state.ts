import { type Body, type Message, ProtocolError } from '@parlance/protocol';

/** The record of a session, as the session uses it. */
export interface DurableState {
  /** How long the record lasts without a word of its node, in milliseconds. */
  readonly lastsMs: number;
  /** Writes also what is not needed any more. */
  tidy(): void;
  /** The application has taken a message of the client. */
  handleTaken(number: number, message: Message): void;
  /** A message is not needed any more: the application is done with it, or it was for another session, which has it. */
  handleDone(number: number): void;
  hasHandled(number: number): boolean;
  /** @throws {ProtocolError} `invalid_argument`. */
  handledUpTo(number: number): void;
  /**
   * @param state in UTF-8.
   * @param onDone nothing can prevent any more that all of it is recorded.
   * @throws {ProtocolError} `over_budget` if the record would become too large; as `Channel.send`, and what coding a body throws.
   */
  commit(state: Uint8Array | undefined, bodies: readonly Body[], onDone: () => void): Promise<void>;
  /**
   * Keeps the state of a feature with the session; `undefined` for none.
   *
   * @throws {ProtocolError} `over_budget`, and errors of MessagePack for a value that it cannot code.
   */
  save(feature: string, value: unknown): void;
  /** Resolves when everything so far is recorded; rejects if the session ends before. */
  recorded(): Promise<void>;
  /** Another node may continue the session. Nothing is written any more, and the record stays at the end. */
  leave(): void;
  /** The session is over here. */
  end(error: Error | undefined): void;
}

/** @throws {ProtocolError} `unsupported` if the session is not durable. */
export function assertDurable(record: DurableState | undefined, name: string): DurableState {
  if (record !== undefined) return record;
  throw new ProtocolError('unsupported', `${name}: the session is not durable`);
}

/** The state of a recorded session: the JSON of its `data`, in UTF-8; empty for none. */
export const stateOf = (dataText: string | undefined): Uint8Array => new TextEncoder().encode(dataText ?? '');

export function dataTextOf(state: Uint8Array | undefined): string | undefined {
  return state === undefined || state.length === 0 ? undefined : new TextDecoder().decode(state);
}

import type { IncomingHttpHeaders } from 'node:http';
import { ProtocolError } from '@parlance/protocol';
import { assertOptions, type OptionKinds } from '@parlance/protocol/internal';
import type { Engine } from '../engine/engine.js';
import { STALL_MS } from './commit-recorder.js';

/** A client whose session may be recorded. */
export interface DurableCandidate {
  /** Without `authenticate`, each connection has one of its own. */
  readonly principal: string;
  readonly agentId: string | undefined;
  readonly ip: string;
  /** The headers of the upgrade request. */
  readonly headers: IncomingHttpHeaders;
}

/** Which sessions are recorded, if their clients understand that. */
export type DurablePolicy = boolean | ((candidate: DurableCandidate) => boolean);

export interface DurabilityOptions {
  /**
   * Allows an engine that forgets everything when its process ends, such as Redis with `appendonly no` or Postgres
   * with `fsync off`.
   *
   * @default false: the server does not start with one
   */
  readonly allowVolatileEngine?: boolean | undefined;
  /**
   * Whether a part of a reply is recorded `before` it is sent, so that it waits for the engine, or `beside`. A part
   * that is sent beside can be missing in the record if the node dies at that moment. So replies of handlers that are
   * called again (`ifProcessDies`) wait in any case.
   *
   * @default 'before'
   */
  readonly recordParts?: 'before' | 'beside' | undefined;
  /**
   * Bytes that the record of one session may have: its state, and messages and replies that its client has not
   * acknowledged. Beyond them, messages and replies of the application fail with `over_budget`.
   *
   * @default 4 MiB
   */
  readonly maxSessionBytes?: number | undefined;
  /**
   * Bytes that all sessions of one principal may take in the engine, in steps of 16 KiB for each. A session that needs more ends
   * with `over_budget`. In the engine a record takes up to twice {@link maxSessionBytes} and 128 KiB.
   *
   * @default 64 MiB
   */
  readonly maxPrincipalBytes?: number | undefined;
  /**
   * Which servers need to have a commit before it counts as recorded: the `primary`, or a `replica` as well, which
   * survives a failover. That costs one `WAIT` for all commits of one tick of the event loop, and needs a Redis that is
   * not a Redis Cluster.
   *
   * @default 'primary'
   */
  readonly confirm?: 'primary' | 'replica' | undefined;
  /** After how many milliseconds without an answer the engine counts as unavailable. @default 5,000 */
  readonly unavailableAfterMs?: number | undefined;
  /**
   * An engine that is unavailable: sessions `wait`, or `degrade`: they continue, lose what the engine does not know if
   * their node ends, and are recorded again when the engine answers. In both cases, clients can resume only when it
   * does. If another node reaches it, sessions that wait continue there after 5 s, and those that degrade stay.
   *
   * @default 'wait'
   */
  readonly onUnavailable?: 'wait' | 'degrade' | undefined;
}

export interface ResolvedDurability {
  readonly engine: Engine;
  readonly wants: (candidate: DurableCandidate) => boolean;
  readonly isVolatile: boolean;
  readonly tellsBeside: boolean;
  readonly maxSessionBytes: number;
  readonly maxPrincipalBytes: number;
  readonly isReplicated: boolean;
  readonly stallMs: number;
  readonly degrades: boolean;
}

const KINDS: OptionKinds<DurabilityOptions> = {
  allowVolatileEngine: 'flag',
  recordParts: 'text',
  maxSessionBytes: 'number',
  maxPrincipalBytes: 'number',
  confirm: 'text',
  unavailableAfterMs: 'number',
  onUnavailable: 'text',
};
const MIB = 1024 * 1024;
const CHOICES = {
  recordParts: ['before', 'beside'],
  confirm: ['primary', 'replica'],
  onUnavailable: ['wait', 'degrade'],
} as const;

/**
 * @param policy which sessions.
 * @returns `undefined` if no session is recorded.
 * @throws {ProtocolError} `invalid_option`.
 */
export function resolveDurability(
  policy: DurablePolicy,
  options: DurabilityOptions,
  engine: Engine | undefined,
): ResolvedDurability | undefined {
  assertOptions({ policy }, { policy: ['flag', 'function'] }, 'durable');
  assertOptions(options, KINDS, 'durable');
  const { allowVolatileEngine = false, recordParts = 'before' } = options;
  const { confirm = 'primary', onUnavailable = 'wait', unavailableAfterMs = STALL_MS } = options;
  const { maxSessionBytes = 4 * MIB, maxPrincipalBytes = 64 * MIB } = options;
  for (const [name, value] of Object.entries({ recordParts, confirm, onUnavailable })) {
    const choices: readonly string[] = CHOICES[name as keyof typeof CHOICES];
    if (!choices.includes(value))
      throw new ProtocolError(
        'invalid_option',
        `durable.${name}: expected ${choices.join(' or ')}, not ${value}`,
      );
  }
  for (const [name, value] of Object.entries({ maxSessionBytes, maxPrincipalBytes, unavailableAfterMs })) {
    if (!(value > 0))
      throw new ProtocolError('invalid_option', `durable.${name}: expected more than 0, not ${value}`);
  }
  if (policy === false) return undefined;
  if (engine === undefined)
    throw new ProtocolError('invalid_option', 'durable: set the option engine, which records the sessions');
  const wants = policy === true ? () => true : policy;
  return {
    engine,
    wants,
    isVolatile: allowVolatileEngine,
    tellsBeside: recordParts === 'beside',
    maxSessionBytes,
    maxPrincipalBytes,
    isReplicated: confirm === 'replica',
    stallMs: unavailableAfterMs,
    degrades: onUnavailable === 'degrade',
  };
}

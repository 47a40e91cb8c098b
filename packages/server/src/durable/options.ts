import type { IncomingHttpHeaders } from 'node:http';
import { ProtocolError } from '@parlance/protocol';
import { assertOptions, type OptionKinds } from '@parlance/protocol/internal';

/** A client whose session may be put on record. */
export interface DurableCandidate {
  /** Without `authenticate`, each connection has one of its own. */
  readonly principal: string;
  readonly agentId: string | undefined;
  readonly ip: string;
  /** The headers of the upgrade request. */
  readonly headers: IncomingHttpHeaders;
}

/** Which sessions are put on record, if their clients understand that. */
export type DurablePolicy = boolean | ((candidate: DurableCandidate) => boolean);

export interface DurabilityOptions {
  /**
   * Allows an engine that forgets everything when its process ends, such as Redis with `appendonly no`.
   *
   * @default false: the server does not start with one
   */
  readonly volatile?: boolean | undefined;
  /**
   * When a part of a reply is told: `before` it is on record, which makes it wait for the engine, or `beside`. A part that is
   * told beside can be missing on record if the node dies at that moment. So replies of handlers that are called again
   * (`onLost`) wait in any case.
   *
   * @default 'before'
   */
  readonly parts?: 'before' | 'beside' | undefined;
  /**
   * Bytes that one session may have on record: its state, and messages and replies that its client has not acknowledged.
   * Beyond them, what the application says fails with `over_budget`.
   *
   * @default 4 MiB
   */
  readonly maxSessionBytes?: number | undefined;
}

export interface ResolvedDurability {
  readonly wants: (candidate: DurableCandidate) => boolean;
  readonly isVolatile: boolean;
  readonly tellsBeside: boolean;
  readonly maxSessionBytes: number;
}

const KINDS: OptionKinds<DurabilityOptions> = { volatile: 'flag', parts: 'text', maxSessionBytes: 'number' };
const DEFAULT_BYTES = 4 * 1024 * 1024;

/**
 * @param policy of the option `durable`.
 * @returns `undefined` if no session is put on record.
 * @throws {ProtocolError} `invalid_option`.
 */
export function resolveDurability(
  policy: DurablePolicy = false,
  options: DurabilityOptions = {},
  cluster: object | undefined,
): ResolvedDurability | undefined {
  assertOptions(options, KINDS, 'durability');
  const { volatile = false, parts = 'before', maxSessionBytes = DEFAULT_BYTES } = options;
  if (parts !== 'before' && parts !== 'beside')
    throw new ProtocolError('invalid_option', `durability.parts: expected before or beside, not ${parts}`);
  if (!(maxSessionBytes > 0)) {
    const message = `durability.maxSessionBytes: expected a positive number of bytes, not ${maxSessionBytes}`;
    throw new ProtocolError('invalid_option', message);
  }
  if (policy === false) return undefined;
  if (cluster === undefined)
    throw new ProtocolError(
      'invalid_option',
      'durable: the option cluster says where sessions are put on record',
    );
  const wants = policy === true ? () => true : policy;
  return { wants, isVolatile: volatile, tellsBeside: parts === 'beside', maxSessionBytes };
}

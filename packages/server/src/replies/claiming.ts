import type { EngineHead, ReplyLogs } from '../engine/logs/logs.js';
import type { ReplyEnd } from '../engine/logs/reply.js';
import type { OnFailed } from './writer.js';

/** How a node continues a reply that another one has written. */
export interface GoingOn {
  /** Of the new writer. */
  readonly epoch: number;
  /** Parts that are known; later ones are read. */
  readonly after: number;
  readonly onFailed: OnFailed;
  /** Whether the node still waits for an engine that does not answer. */
  readonly isWanted: () => boolean;
}

/**
 * `gone`: there is no such reply; `ended`: a writer of a later epoch has it; `lost`: the engine has forgotten it meanwhile.
 * The others are those of `ClaimOutcome`.
 */
export type GoneOn =
  | { readonly outcome: 'gone' | 'ended' | 'lost' }
  | {
      readonly outcome: 'done' | 'over' | 'given_up';
      readonly head: EngineHead;
      /** Parts in the engine, and their bytes; 0 if they are not claimed. */
      readonly from: { readonly parts: number; readonly offset: number };
      /** The parts behind those that are known. */
      readonly rest: readonly Uint8Array[];
      readonly end: ReplyEnd | undefined;
    };

export interface ClaimingHost {
  readonly engine: ReplyLogs;
  /** This node. */
  readonly incarnation: string;
  /** How long a reply is kept without a sign of its writer, in milliseconds. */
  readonly liveMsOf: (head: EngineHead) => number;
  /** Repeats a call for as long as that makes sense. */
  readonly patiently: <Result>(run: () => Promise<Result>) => Promise<Result>;
}

/**
 * Claims a reply, so that its former writer is refused, and reads the parts that others may have. No other node adds to it in between.
 *
 * @throws {ProtocolError} `timeout` if the engine does not answer, `authentication_failed`, `bad_message`.
 */
export async function claimReply(
  { engine, incarnation, liveMsOf, patiently }: ClaimingHost,
  id: string,
  { epoch, after }: GoingOn,
): Promise<GoneOn> {
  const entry = await patiently(() => engine.find(id));
  if (entry === undefined) return { outcome: 'gone' };
  const { parts: _parts, end: _end, idleMs: _idleMs, ...former } = entry;
  const head: EngineHead = { ...former, by: incarnation, epoch };
  const claimed = await patiently(() => engine.claim(head, incarnation, liveMsOf(head)));
  const { outcome } = claimed;
  if (outcome === 'gone' || outcome === 'ended') return { outcome };
  const rest: Uint8Array[] = [];
  let end: ReplyEnd | undefined;
  for (;;) {
    const pieces = await patiently(() => engine.read(id, after + rest.length));
    if (pieces === undefined) return { outcome: 'lost' };
    rest.push(...pieces.records);
    end = pieces.end;
    if (end !== undefined || pieces.records.length === 0) break;
  }
  const from = outcome === 'done' ? claimed : { parts: 0, offset: 0 };
  return { outcome, head, from, rest, end };
}

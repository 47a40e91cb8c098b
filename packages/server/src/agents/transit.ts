import {
  BodyCodec,
  type CodedBody,
  type Limits,
  type Logger,
  ProtocolError,
  type ReceivedBody,
  type Undelivered,
} from '@parlance/protocol';
import { loggable, type PartText, toProtocolError } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import { isSharedCoding, passOn, recode } from '../session/recode.js';
import { type Agent, targetOf } from './agent.js';
import type { Directory } from './directory.js';
import type { Policy, RelayKind } from './policy.js';
import type { RelayTarget } from './target.js';

/** Counts of a server's relay since it was created. */
export interface RelayStats {
  /** Bodies that were forwarded unchanged. */
  readonly forwarded: number;
  /** Bodies that were decoded and coded again, because the two sessions do not share the coding. */
  readonly recoded: number;
  /** Messages and requests that were not delivered. */
  readonly refused: number;
  /** One-way messages that may or may not have arrived. */
  readonly unknown: number;
}

/** Bytes of memory that a recoded body takes in addition to its content. */
const RECODED_OVERHEAD = 1024;

/**
 * The rules for relayed messages, requests and tensors: whether they may pass, in which coding, and whose credit is
 * returned.
 */
export class Transit {
  readonly stats: { -readonly [Key in keyof RelayStats]: RelayStats[Key] } = {
    forwarded: 0,
    recoded: 0,
    refused: 0,
    unknown: 0,
  };
  readonly #directory: Directory;
  readonly #policy: Policy;
  readonly #logger: Logger;
  /** The last decision of {@link targetOf}, which {@link admit} uses once for the same body. */
  #admitted: { readonly body: ReceivedBody; readonly answer: Agent | ProtocolError } | undefined;
  /** Sessions whose credit was returned and has to be advertised. */
  #due = new Set<RelayTarget>();
  readonly #unreported = new WeakSet<RelayTarget>();
  readonly limits: Pick<Limits, 'maxMetadataSize'>;

  constructor(directory: Directory, policy: Policy, logger: Logger) {
    this.limits = directory.limits;
    this.#directory = directory;
    this.#policy = policy;
    this.#logger = logger;
  }

  /**
   * The agent that a body from `source` to `name` goes to.
   *
   * @param body `undefined` for a tensor, which comes in pieces.
   * @throws {ProtocolError} `unknown_agent`, also if the sender may not see the agent, and for the server's own
   * names; `forbidden`.
   */
  admit(source: ServerEndpoint, name: string, kind: RelayKind, body: ReceivedBody | undefined): Agent {
    const admitted = this.#admitted;
    this.#admitted = undefined;
    if (body !== undefined && admitted?.body === body) {
      if (admitted.answer instanceof ProtocolError) throw admitted.answer;
      return admitted.answer;
    }
    if (name.startsWith('@')) throw new ProtocolError('unknown_agent', `${name} takes no ${kind}`);
    const [directory, policy] = [this.#directory, this.#policy];
    const from = directory.agentOf(source)?.party;
    if (from === undefined) {
      throw new ProtocolError(
        'forbidden',
        'only an agent (a session with an agent ID) may address other agents',
      );
    }
    const routed = policy.route(from, name, kind, body);
    const agent = routed === undefined ? undefined : directory.find(from.principal, routed);
    // Without `authorize`, a route that names another principal's agent has decided.
    if (agent !== undefined && typeof routed === 'object' && !policy.isDecided) return agent;
    if (agent === undefined || !policy.mayList(from, agent.party)) {
      throw new ProtocolError('unknown_agent', `there is no agent ${name}`);
    }
    if (policy.maySend(from, agent.party, kind, body)) return agent;
    throw new ProtocolError('forbidden', `${from.id} may send no ${kind} to ${name}`);
  }

  /** The name that `target` knows `source` by. */
  nameOf({ principal = '', agentId }: RelayTarget, target: RelayTarget): string | undefined {
    if (agentId === undefined || principal === target.principal) return agentId;
    return this.#directory.addressOf(principal, agentId);
  }

  /**
   * The session that a body is for; `undefined` if it may not go there. The decision is kept for the {@link admit}
   * that follows, unless the body has to wait in between.
   */
  targetOf(source: ServerEndpoint, to: string, kind: RelayKind, body: ReceivedBody): RelayTarget | undefined {
    try {
      const answer = this.admit(source, to, kind, body);
      this.#admitted = { body, answer };
      return targetOf(answer);
    } catch (error) {
      // The sender is notified when the body is taken.
      if (error instanceof ProtocolError) this.#admitted = { body, answer: error };
      return undefined;
    }
  }

  /** Bytes of memory that a body of `from` takes on its way to `to`; 0 if it is forwarded unchanged. */
  memoryOf(body: ReceivedBody, from: RelayTarget, to: RelayTarget): number {
    if (to.isRemote) return 0;
    if (isSharedCoding(body, from.negotiated, to.negotiated, to.core.awaitedCodecs)) return 0;
    return from.coder.decodedLength(body) + RECODED_OVERHEAD;
  }

  /**
   * A body of `from` in a coding that `to` understands. A body for another node is coded there.
   *
   * @param stream the stream that the body is a part of.
   * @throws {ProtocolError} any error of decoding or coding.
   */
  convert(
    body: ReceivedBody,
    from: RelayTarget,
    to: RelayTarget,
    stream?: { partText: PartText | undefined },
  ): CodedBody {
    // Marked secret so that no context coding compares what two principals send.
    const secret = body.secret || from.principal !== to.principal;
    // Only this session knows what a body in context refers to.
    if (to.isRemote)
      return passOn(body.content === undefined ? body : { ...body, bytes: body.content }, secret);
    if (isSharedCoding(body, from.negotiated, to.negotiated, to.core.awaitedCodecs)) {
      this.stats.forwarded++;
      return passOn(body, secret);
    }
    this.stats.recoded++;
    const isTokenPart = stream !== undefined && body.codec === BodyCodec.TOKEN_NATIVE;
    if (isTokenPart) stream.partText ??= from.coder.createPartText();
    return recode({ ...body, secret }, from.coder, to.coder, stream?.partText);
  }

  /**
   * Returns credit to `session`: what it sent is written, or never will be. This may run while another session
   * writes, so the session is pumped later.
   */
  returnCredit(session: RelayTarget, streamId: number, charge: number): void {
    if (!session.credit(streamId, charge)) return;
    if (this.#due.size === 0) queueMicrotask(() => this.#pumpDue());
    this.#due.add(session);
  }

  #pumpDue(): void {
    const due = this.#due;
    // Replace the set: a long-lived one that is cleared and refilled allocates in old space, where V8 checks each
    // time whether a full collection is due, and with much memory in buffers it always is (measured).
    this.#due = new Set();
    for (const session of due) session.pump();
  }

  /** A delivery report could not be sent. This is logged once for each session. */
  handleUnreported(source: RelayTarget, { to, outcome }: Undelivered, error: unknown): void {
    if (this.#unreported.has(source)) return;
    this.#unreported.add(source);
    const fields = { event: 'relay.unreported', session: source.id, to, outcome, err: loggable(error) };
    this.#logger.warn(fields, 'a report of an undelivered message cannot be sent to its session');
  }

  /** Counts a refusal and returns the error for the sender; internal details are logged, not sent. */
  refuse(error: unknown, to: string): ProtocolError {
    this.stats.refused++;
    return this.reasonOf(error, to);
  }

  /** The error for the sender of a body that could not be relayed. */
  reasonOf(error: unknown, to: string): ProtocolError {
    const reason = toProtocolError(error, 'internal', 'the relay failed');
    if (reason.code === 'internal')
      this.#logger.error({ event: 'relay.failed', to, err: loggable(error) }, 'the relay failed');
    // For the sender, a target that closes is gone.
    if (reason.code !== 'session_closed') return reason;
    return new ProtocolError('peer_gone', `the session of agent ${to} is closing; it never had the body`);
  }
}

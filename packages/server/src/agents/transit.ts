import {
  BodyCodec,
  type CodedBody,
  type Logger,
  ProtocolError,
  type ReceivedBody,
  type Undeliverable,
} from '@parlance/protocol';
import { guard, loggable, toProtocolError } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../endpoint.js';
import type { Agent, Directory } from './directory.js';
import type { Policy, RelayKind } from './policy.js';
import { isSharedCoding, type PartText, passOn, recode } from './recode.js';

/** What a server's relay has done since it began. */
export interface RelayStats {
  /** Bodies that were passed on as they came. */
  readonly forwarded: number;
  /** Bodies that were decoded and coded anew, as the two sessions have not the same coding. */
  readonly recoded: number;
  /** Messages and requests that nobody was given. */
  readonly refused: number;
  /** One-way messages of which nobody knows whether they arrived. */
  readonly unknown: number;
}

/** What a body that was coded again takes beside its bytes. */
const RECODED_OVERHEAD = 1024;

/** What all that passes from one session to another has in common: whether it may, how, and for whose credit. */
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
  /** The answer to the last question, for the one who asks it again at once. */
  #admitted: { readonly body: ReceivedBody; readonly answer: Agent | ProtocolError } | undefined;
  /** Sessions that were given credit and have to say so. */
  #due = new Set<ServerEndpoint>();
  readonly #unreported = new WeakSet<ServerEndpoint>();

  constructor(directory: Directory, policy: Policy, logger: Logger) {
    this.#directory = directory;
    this.#policy = policy;
    this.#logger = logger;
  }

  /**
   * The agent that something from `source` to `name` goes to.
   *
   * @param body `undefined` for a tensor, which comes in pieces.
   * @throws {ProtocolError} `unknown_agent`, also for one that the sender may not see and for the server's own
   * names; `forbidden`.
   */
  admit(source: ServerEndpoint, name: string, kind: RelayKind, body: ReceivedBody | undefined): Agent {
    const admitted = this.#admitted;
    this.#admitted = undefined;
    if (body !== undefined && admitted?.body === body) {
      if (admitted.answer instanceof ProtocolError) throw admitted.answer;
      return admitted.answer;
    }
    if (name.startsWith('@')) throw new ProtocolError('unknown_agent', `nothing takes a ${kind} at ${name}`);
    const [directory, policy] = [this.#directory, this.#policy];
    const from = directory.agentOf(source)?.party;
    if (from === undefined) {
      throw new ProtocolError('forbidden', 'only an agent, a session with an agent ID, may write to others');
    }
    const routed = policy.route(from, name, kind, body);
    const agent = routed === undefined ? undefined : directory.find(from.principal, routed);
    // Without `authorize`, the application has decided by naming another principal's agent.
    if (agent !== undefined && typeof routed === 'object' && !policy.isDecided) return agent;
    if (agent === undefined || !policy.mayList(from, agent.party)) {
      throw new ProtocolError('unknown_agent', `there is no agent ${name}`);
    }
    if (policy.maySend(from, agent.party, kind, body)) return agent;
    throw new ProtocolError('forbidden', `${from.id} may send no ${kind} to ${name}`);
  }

  /** The name that `target` knows `source` by. */
  nameOf(source: ServerEndpoint, target: ServerEndpoint): string | undefined {
    if (source.principal === target.principal) return source.agentId;
    return this.#directory.agentOf(source)?.address;
  }

  /**
   * The session that a body is for, which is asked for again when the body is taken: the two answers are the
   * same unless it had to wait. `undefined` if it may not go there.
   */
  targetOf(
    source: ServerEndpoint,
    to: string,
    kind: RelayKind,
    body: ReceivedBody,
  ): ServerEndpoint | undefined {
    try {
      const answer = this.admit(source, to, kind, body);
      this.#admitted = { body, answer };
      return answer.session;
    } catch (error) {
      // It is told when the body is taken.
      if (error instanceof ProtocolError) this.#admitted = { body, answer: error };
      return undefined;
    }
  }

  /** Bytes that a body of `from` takes on its way to `to`; 0 if it passes as it is. */
  memoryOf(body: ReceivedBody, from: ServerEndpoint, to: ServerEndpoint): number {
    if (isSharedCoding(body, from.negotiated, to.negotiated)) return 0;
    return from.coder.decodedLength(body) + RECODED_OVERHEAD;
  }

  /**
   * A body of `from` in a coding that `to` understands.
   *
   * @param stream that the body is a part of.
   * @throws {ProtocolError} what decoding or coding throws.
   */
  convert(
    body: ReceivedBody,
    from: ServerEndpoint,
    to: ServerEndpoint,
    stream?: { partText: PartText | undefined },
  ): CodedBody {
    // No coding against earlier messages may compare what two principals send.
    const secret = body.secret || from.principal !== to.principal;
    if (isSharedCoding(body, from.negotiated, to.negotiated)) {
      this.stats.forwarded++;
      return passOn(body, secret);
    }
    this.stats.recoded++;
    const isTokenPart = stream !== undefined && body.codec === BodyCodec.TOKEN_NATIVE;
    if (isTokenPart) stream.partText ??= from.coder.createPartText();
    return recode({ ...body, secret }, from.coder, to.coder, stream?.partText);
  }

  /**
   * Somebody has taken what `session` sent. What its credit lets follow is looked at later, as this is
   * called while another session writes.
   */
  giveBack(session: ServerEndpoint, streamId: number, charge: number): void {
    // A fault in giving it back is the session's that gets it, not the writer's.
    if (!guard(session, () => session.core.channel.consume(streamId, charge))) return;
    if (this.#due.size === 0) queueMicrotask(() => this.#pumpDue());
    this.#due.add(session);
  }

  #pumpDue(): void {
    const due = this.#due;
    // A set that is cleared and lives on takes new memory among what is old every time, and whoever asks
    // for that has V8 look whether it is time to collect everything: with much in buffers it always is.
    this.#due = new Set();
    for (const session of due) session.pump();
  }

  /** A report of delivery could not be told. Of one session this is logged once. */
  handleUnreported(source: ServerEndpoint, { to, outcome }: Undeliverable, error: unknown): void {
    if (this.#unreported.has(source)) return;
    this.#unreported.add(source);
    const fields = { event: 'relay.unreported', session: source.id, to, outcome, err: loggable(error) };
    this.#logger.warn(fields, 'a session cannot be told that a message was not delivered');
  }

  /** Something was given to nobody. Returns what its sender is told; what is no failure of its own stays here. */
  refuse(error: unknown, to: string): ProtocolError {
    this.stats.refused++;
    return this.reasonOf(error, to);
  }

  reasonOf(error: unknown, to: string): ProtocolError {
    const reason = toProtocolError(error, 'internal', 'the relay failed');
    if (reason.code === 'internal')
      this.#logger.error({ event: 'relay.failed', to, err: loggable(error) }, 'the relay failed');
    // To the sender its target is gone, however that ends.
    if (reason.code !== 'session_closed') return reason;
    return new ProtocolError('peer_gone', `the session of agent ${to} closes; it never had the body`);
  }
}

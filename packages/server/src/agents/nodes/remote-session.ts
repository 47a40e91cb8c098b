import type { BodyToSend, LaterCodec, Negotiated, ProtocolError, SessionState } from '@parlance/protocol';
import { type BodyCoder, encodeFailure, guard, type SessionMemory } from '@parlance/protocol/internal';
import type { RelayChannel, RelayTarget } from '../target.js';
import { Intake } from './intake.js';
import { bodyParts, type RelayMessageType } from './messages.js';

/** An agent of another node, as its node describes it. */
export interface RemoteAgent {
  readonly sessionId: string;
  readonly principal: string;
  readonly agentId: string;
  readonly negotiated: Pick<Negotiated, 'algorithms' | 'encoding'>;
  /** As of {@link RelayTarget}. @default 0 */
  readonly retentionMs?: number | undefined;
}

export interface RemoteHost {
  /** A coder as the session itself has one. */
  createCoder(negotiated: RemoteAgent['negotiated']): BodyCoder;
  /** The memory of bodies of a principal that wait or are coded again. */
  openMemory(principal: string): SessionMemory;
  /** Clock reading in milliseconds. */
  now(): number;
  /** A fault of this node. */
  crash(error: unknown): void;
}

/** The connection to the node of a session. */
export interface RemoteWire {
  send(type: RelayMessageType, fields: readonly unknown[], ...parts: readonly Uint8Array[]): void;
}

/** Bytes that are under way, and what to do when the other node has written them. */
export interface UnderWay {
  readonly charge: number;
  readonly onWritten: () => void;
}

const NONE: ReadonlySet<LaterCodec> = new Set();

export abstract class RemoteSession implements RelayTarget {
  readonly isRemote = true;
  relayed = 0;
  state: SessionState = 'established';
  readonly id: string;
  readonly principal: string;
  readonly agentId: string;
  readonly retentionMs: number;
  readonly negotiated: RemoteAgent['negotiated'];
  readonly core: RelayTarget['core'];
  readonly #host: RemoteHost;
  #coder: BodyCoder | undefined;
  #intake: Intake | undefined;

  constructor({ sessionId, principal, agentId, negotiated, retentionMs = 0 }: RemoteAgent, host: RemoteHost) {
    this.id = sessionId;
    this.retentionMs = retentionMs;
    this.principal = principal;
    this.agentId = agentId;
    this.negotiated = negotiated;
    this.#host = host;
    this.core = { channel: this.createChannel(), awaitedCodecs: NONE };
  }

  protected abstract createChannel(): RelayChannel;

  /** Holds back what this session has sent, until there is memory to code it again. */
  get intake(): Intake {
    const [host, { principal }] = [this.#host, this];
    this.#intake ??= new Intake({
      openMemory: () => host.openMemory(principal),
      now: () => host.now(),
    });
    return this.#intake;
  }

  handleTick(): void {
    this.#intake?.handleTick();
  }

  /** Closes the intake with everything that waits in it. */
  protected closeIntake(): void {
    this.#intake?.close();
    this.#intake = undefined;
  }

  get coder(): BodyCoder {
    this.#coder ??= this.#host.createCoder(this.negotiated);
    return this.#coder;
  }

  perform<Result>(command: (core: RelayTarget['core']) => Result, _source?: RelayTarget): Result {
    return command(this.core);
  }

  tell(command: (core: RelayTarget['core']) => void): void {
    guard(this, () => command(this.core));
  }

  credit(streamId: number, charge: number): boolean {
    return guard(this, () => this.core.channel.consume(streamId, charge)) === true;
  }

  pump(): void {}
  abort(_error: ProtocolError): void {}

  crash(error: unknown): void {
    this.#host.crash(error);
  }
}

/** Methods of a session that are never called in this role. */
export const UNUSED = {
  send() {},
  request: () => 0,
  transfer: () => 0,
  feed() {},
  respond() {},
  chunk() {},
  end() {},
  fail() {},
  refuse() {},
  cancel() {},
  queuedOn: () => 0,
  isWanted: () => true,
  framesConfirmed: 0,
} as const;

interface Answering {
  isWanted: boolean;
  isOver: boolean;
  readonly underWay: UnderWay[];
}

/** Answers the requests of a sender. A node has tens of thousands of them, so it has no functions of its own. */
class SourceChannel implements RelayChannel {
  readonly #source: RemoteSource;

  constructor(source: RemoteSource) {
    this.#source = source;
  }

  isWanted(ref: number): boolean {
    return this.#source.isWanted(ref);
  }
  chunk(ref: number, body: BodyToSend): void {
    this.#source.write('part', ref, body);
  }
  respond(ref: number, body: BodyToSend): void {
    if (this.#source.isWanted(ref)) this.#source.write('response', ref, body);
    else this.end(ref);
  }
  end(ref: number): void {
    this.#source.answer(ref, 'end', []);
  }
  fail(ref: number, error: Parameters<RelayChannel['fail']>[1]): void {
    this.#source.answer(ref, 'fail', [], encodeFailure(error));
  }
  refuse(ref: number, { code, message }: ProtocolError): void {
    this.#source.answer(ref, 'reject', [code, message.slice(0, 1_024)]);
  }
  consume(ref: number, charge: number): boolean {
    this.#source.pay(ref, charge);
    return false;
  }

  // Nothing is sent to the agent.
  send(): void {}
  request(): number {
    return 0;
  }
  transfer(): number {
    return 0;
  }
  feed(): void {}
  cancel(): void {}
  queuedOn(): number {
    return 0;
  }
  get framesConfirmed(): number {
    return 0;
  }
}

/** Stands for an agent of another node that writes to agents of this node. */
export class RemoteSource extends RemoteSession {
  readonly #wire: RemoteWire;
  readonly #answering = new Map<number, Answering>();
  readonly #onOver: (ref: number) => void;

  /** @param onOver called when a request is over and its replies are written. */
  constructor(agent: RemoteAgent, host: RemoteHost, wire: RemoteWire, onOver: (ref: number) => void) {
    super(agent, host);
    this.#wire = wire;
    this.#onOver = onOver;
  }

  protected createChannel(): RelayChannel {
    return new SourceChannel(this);
  }

  // --- calls to its channel

  isWanted(ref: number): boolean {
    return this.#answering.get(ref)?.isWanted === true;
  }

  pay(ref: number, charge: number): void {
    this.#wire.send('credit', [ref, charge]);
  }

  answer(ref: number, type: RelayMessageType, fields: readonly unknown[], ...parts: Uint8Array[]): void {
    const answering = this.#answering.get(ref);
    if (answering === undefined || answering.isOver) return;
    answering.isOver = true;
    this.#wire.send(type, [ref, ...fields], ...parts);
    this.#forget(ref, answering);
  }

  write(type: 'part' | 'response', ref: number, body: BodyToSend): void {
    const answering = this.#answering.get(ref);
    if (answering === undefined || answering.isOver) return;
    const { fields, parts, charge } = bodyParts(body);
    answering.underWay.push({ charge, onWritten: () => body.onWritten?.(1) });
    answering.isOver = type === 'response';
    this.#wire.send(type, [ref, ...fields], ...parts);
  }

  /** Numbers of its requests that are not over. */
  get requests(): readonly number[] {
    return [...this.#answering.keys()];
  }

  // --- what its node says

  /** A request begins. Returns whether its number is new. */
  begin(ref: number): boolean {
    if (this.#answering.has(ref)) return false;
    this.#answering.set(ref, { isWanted: true, isOver: false, underWay: [] });
    return true;
  }

  handleCancel(ref: number): void {
    const answering = this.#answering.get(ref);
    if (answering === undefined) return;
    answering.isWanted = false;
  }

  /** Replies that cost so much were written to the session. */
  handleRead(ref: number, charge: number): void {
    const answering = this.#answering.get(ref);
    let left = charge;
    while (answering !== undefined && left > 0) {
      const [first] = answering.underWay;
      if (first === undefined || first.charge > left) return;
      left -= first.charge;
      answering.underWay.shift();
      first.onWritten();
      this.#forget(ref, answering);
    }
  }

  #forget(ref: number, { isOver, underWay }: Answering): void {
    if (!isOver || underWay.length > 0) return;
    this.#answering.delete(ref);
    this.#onOver(ref);
  }

  /** The session, or the connection to its node, is over. */
  close(): void {
    this.state = 'closed';
    this.closeIntake();
    this.#answering.clear();
  }
}

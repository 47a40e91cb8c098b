import type {
  BodyToSend,
  LaterCodec,
  Negotiated,
  OutgoingTransfer,
  ProtocolError,
  SessionState,
} from '@parlance/protocol';
import { type BodyCoder, encodeFailure, guard } from '@parlance/protocol/internal';
import type { RelayChannel, RelayTarget } from '../agents/target.js';
import { bodyParts, chargeOf, type RelayMessageType } from './relay-message.js';

/** An agent of another node, as its node describes it. */
export interface RemoteAgent {
  readonly sessionId: string;
  readonly principal: string;
  readonly agentId: string;
  readonly negotiated: Pick<Negotiated, 'algorithms' | 'encoding'>;
}

export interface RemoteHost {
  /** A coder as the session itself has one. */
  createCoder(negotiated: RemoteAgent['negotiated']): BodyCoder;
  /** A fault of this node. */
  crash(error: unknown): void;
}

/** The connection to the node of a session. */
export interface RemoteWire {
  send(type: RelayMessageType, fields: readonly unknown[], ...parts: readonly Uint8Array[]): void;
}

/** Bytes that are under way, and what to do when the other node has written them. */
interface UnderWay {
  readonly charge: number;
  readonly onWritten: () => void;
}

const NONE: ReadonlySet<LaterCodec> = new Set();

abstract class RemoteSession implements RelayTarget {
  readonly isRemote = true;
  relayed = 0;
  state: SessionState = 'established';
  readonly id: string;
  readonly principal: string;
  readonly agentId: string;
  readonly negotiated: RemoteAgent['negotiated'];
  readonly core: RelayTarget['core'];
  readonly #host: RemoteHost;
  #coder: BodyCoder | undefined;

  constructor({ sessionId, principal, agentId, negotiated }: RemoteAgent, host: RemoteHost) {
    this.id = sessionId;
    this.principal = principal;
    this.agentId = agentId;
    this.negotiated = negotiated;
    this.#host = host;
    this.core = { channel: this.createChannel(), awaitedCodecs: NONE };
  }

  protected abstract createChannel(): RelayChannel;

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

  pump(): void {}
  abort(_error: ProtocolError): void {}

  crash(error: unknown): void {
    this.#host.crash(error);
  }
}

/** What no session is asked in its role. */
const UNUSED = {
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

export interface TargetHost extends RemoteHost {
  /** The connection to the node of the session, which may be opened by this. */
  connect(target: RemoteTarget): TargetWire;
  /** The connection, if there is one. */
  readonly wire: RemoteWire | undefined;
}

export interface TargetWire extends RemoteWire {
  /** The number of a sender on this connection, which this introduces. */
  numberOf(source: RelayTarget): number;
  /** The number of a new request of `source` to `target`. */
  open(target: RemoteTarget, source: RelayTarget): number;
}

interface Asked {
  readonly underWay: UnderWay[];
  /** Of a tensor, bytes that are not written. */
  left: number;
  readonly onLast: ((frame: number) => void) | undefined;
}

/** Stands for an agent of another node, to which agents of this node write. */
export class RemoteTarget extends RemoteSession {
  readonly #targetHost: TargetHost;
  readonly #asked = new Map<number, Asked>();
  /** Messages that its node has not written, by their numbers. */
  #unwritten: { readonly number: number; readonly onWritten: ((frame: number) => void) | undefined }[] = [];
  #lastMessage = 0;
  #written = 0;
  #confirmed = 0;
  #source: RelayTarget | undefined;

  constructor(agent: RemoteAgent, host: TargetHost) {
    super(agent, host);
    this.#targetHost = host;
  }

  /** @param source whose body the command sends. */
  override perform<Result>(command: (core: RelayTarget['core']) => Result, source?: RelayTarget): Result {
    this.#source = source;
    try {
      return command(this.core);
    } finally {
      this.#source = undefined;
    }
  }

  protected createChannel(): RelayChannel {
    const confirmed = () => this.#confirmed;
    return {
      ...UNUSED,
      get framesConfirmed() {
        return confirmed();
      },
      send: (body) => this.#send(body),
      request: (body) => this.#request(body),
      transfer: (transfer) => this.#transfer(transfer),
      feed: (ref, bytes, onWritten) => this.#feed(ref, bytes, onWritten),
      cancel: (ref) => this.#targetHost.wire?.send('cancel', [ref]),
      consume: (ref, charge) => {
        this.#targetHost.wire?.send('read', [ref, charge]);
        return false;
      },
    };
  }

  #send(body: BodyToSend): void {
    const wire = this.#targetHost.connect(this);
    const number = ++this.#lastMessage;
    const { fields, parts } = bodyParts(body);
    this.#unwritten.push({ number, onWritten: body.onWritten });
    wire.send('message', [this.#sender(wire), number, this.id, ...fields], ...parts);
  }

  #request(body: BodyToSend): number {
    const wire = this.#targetHost.connect(this);
    const ref = wire.open(this, this.#source as RelayTarget);
    const { fields, parts, charge } = bodyParts(body);
    const onWritten = () => body.onWritten?.(1);
    this.#asked.set(ref, { underWay: [{ charge, onWritten }], left: 0, onLast: undefined });
    wire.send('request', [this.#sender(wire), ref, this.id, ...fields], ...parts);
    return ref;
  }

  #transfer({ totalLength, first, onFirstWritten, onWritten }: OutgoingTransfer): number {
    const wire = this.#targetHost.connect(this);
    const ref = wire.open(this, this.#source as RelayTarget);
    const underWay = [{ charge: chargeOf(first.length), onWritten: () => onFirstWritten?.() }];
    this.#asked.set(ref, { underWay, left: totalLength, onLast: onWritten });
    wire.send('tensor', [this.#sender(wire), ref, this.id, totalLength], first);
    return ref;
  }

  #feed(ref: number, bytes: Uint8Array, onWritten?: () => void): void {
    const asked = this.#asked.get(ref);
    if (asked === undefined) return;
    asked.underWay.push({ charge: chargeOf(bytes.length), onWritten: () => onWritten?.() });
    this.#targetHost.wire?.send('piece', [ref], bytes);
  }

  #sender(wire: TargetWire): number {
    return wire.numberOf(this.#source as RelayTarget);
  }

  // --- what its node says

  /** @param written messages that were written, of all that were not refused. @param confirmed of those. */
  handleWritten(written: number, confirmed: number): void {
    this.handleConfirmed(Math.min(confirmed, written));
    while (this.#written < written) {
      const next = this.#unwritten.shift();
      if (next === undefined) return;
      next.onWritten?.(++this.#written);
    }
  }

  handleConfirmed(confirmed: number): void {
    this.#confirmed = Math.max(this.#confirmed, confirmed);
  }

  /** Returns the place of the message among those that are not written; -1 if it is none of them. */
  handleRefused(number: number): number {
    const place = this.#unwritten.findIndex((each) => each.number === number);
    if (place >= 0) this.#unwritten.splice(place, 1);
    return place;
  }

  /** The other node has written what cost so much. */
  handleCredit(ref: number, charge: number): void {
    const asked = this.#asked.get(ref);
    const first = asked?.underWay[0];
    if (asked === undefined || first === undefined || first.charge !== charge) return;
    asked.underWay.shift();
    first.onWritten();
    if (asked.onLast === undefined) return;
    asked.left -= charge - chargeOf(0);
    if (asked.left <= 0) asked.onLast(1);
  }

  /** The request is over. */
  forget(ref: number): void {
    const asked = this.#asked.get(ref);
    this.#asked.delete(ref);
    // What its sender has written of a tensor that was refused is not under way any more.
    for (const { onWritten } of asked?.underWay ?? []) onWritten();
  }

  /** The session, or the connection to its node, is over. */
  reset(): void {
    for (const ref of [...this.#asked.keys()]) this.forget(ref);
    this.#unwritten = [];
    this.#written = 0;
    this.#confirmed = 0;
  }
}

interface Answering {
  isWanted: boolean;
  isOver: boolean;
  readonly underWay: UnderWay[];
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
    const answer = (
      ref: number,
      type: RelayMessageType,
      fields: readonly unknown[],
      ...parts: Uint8Array[]
    ) => {
      const answering = this.#answering.get(ref);
      if (answering === undefined || answering.isOver) return;
      answering.isOver = true;
      this.#wire.send(type, [ref, ...fields], ...parts);
      this.#forget(ref, answering);
    };
    return {
      ...UNUSED,
      isWanted: (ref) => this.#answering.get(ref)?.isWanted === true,
      chunk: (ref, body) => this.#write('part', ref, body),
      respond: (ref, body) => {
        if (this.#answering.get(ref)?.isWanted !== true) return answer(ref, 'end', []);
        this.#write('response', ref, body);
      },
      end: (ref) => answer(ref, 'end', []),
      fail: (ref, error) => answer(ref, 'fail', [], encodeFailure(error)),
      refuse: (ref, { code, message }) => answer(ref, 'reject', [code, message.slice(0, 1_024)]),
      consume: (ref, charge) => {
        this.#wire.send('credit', [ref, charge]);
        return false;
      },
    };
  }

  #write(type: 'part' | 'response', ref: number, body: BodyToSend): void {
    const answering = this.#answering.get(ref);
    if (answering === undefined || answering.isOver) return;
    const { fields, parts, charge } = bodyParts(body);
    answering.underWay.push({ charge, onWritten: () => body.onWritten?.(1) });
    answering.isOver = type === 'response';
    this.#wire.send(type, [ref, ...fields], ...parts);
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
    if (answering !== undefined) answering.isWanted = false;
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
    this.#answering.clear();
  }
}

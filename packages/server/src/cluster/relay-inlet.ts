import {
  Algorithm,
  EncodingName,
  ProtocolError,
  type ReceivedBody,
  type Undelivered,
} from '@parlance/protocol';
import type { Relay } from '../agents/relay.js';
import type { RelayTarget } from '../agents/target.js';
import type { ServerWire, WireEvents } from '../http/ws.js';
import { type Inflow, Inflows } from './relay-inflows.js';
import {
  chargeOf,
  countField,
  malformed,
  type RelayMessage,
  type RelayMessageType,
  readBody,
  readReport,
  textField,
} from './relay-message.js';
import { RelayQuota } from './relay-quota.js';
import { type RelayTraffic, RelayWire } from './relay-wire.js';
import { type RemoteAgent, type RemoteHost, RemoteSource, type RemoteWire } from './remote-session.js';

export interface RelayInletOptions extends RemoteHost {
  readonly relay: Relay;
  readonly traffic: RelayTraffic;
  /** The session of an agent of this node. */
  readonly find: (sessionId: string) => RelayTarget | undefined;
  /** Whether the session takes what is new; `gone` if it is not known, and has not moved from here. */
  readonly accessTo: (sessionId: string) => 'open' | 'held' | 'gone';
  /** Whether the other node may speak for the session of an agent. */
  readonly maySpeakFor: (agent: RemoteAgent) => boolean;
  /** It may not. */
  readonly onForged: (agent: RemoteAgent) => void;
  /** Bytes of memory that a body takes to be coded again. */
  readonly memoryOf: (body: ReceivedBody, from: RelayTarget, to: RelayTarget) => number;
  /** The other node keeps account of a session that has moved here. Returns what is known of messages to it. */
  readonly onAccount: (sessionId: string) => Inflow | undefined;
  /** A message of such a session is lost. */
  readonly onReport: (sessionId: string, report: Undelivered) => void;
  /** Such an account is closed. @param isComplete whether all messages were confirmed or reported. */
  readonly onSettled: (sessionId: string, isComplete: boolean) => void;
  /** The connection is over. @param why `undefined` if this node has ended it. */
  readonly onOver: (why: unknown) => void;
}

/** Senders of one node, and sessions of moved agents of which it keeps account. */
export const MAX_SOURCES = 50_000;

/** The connection from another node, whose agents write on it to agents of this one. */
export class RelayInlet implements RemoteWire, WireEvents {
  readonly #wire: RelayWire;
  readonly #options: RelayInletOptions;
  readonly #sources = new Map<number, RemoteSource>();
  /** Senders for which the other node may not speak. */
  readonly #forged = new Set<number>();
  readonly #requests = new Map<number, RemoteSource>();
  /** Bytes of each tensor that have not come yet. */
  readonly #tensors = new Map<number, number>();
  readonly #inflows: Inflows;
  readonly #accounts = new Set<string>();
  readonly #quota = new RelayQuota();
  #isOver = false;

  constructor(wire: Pick<ServerWire, 'send' | 'terminate'>, options: RelayInletOptions) {
    this.#options = options;
    this.#wire = new RelayWire(options.traffic);
    this.#wire.open(wire);
    this.#inflows = new Inflows(options.accessTo, (type, fields) => this.send(type, fields));
  }

  send(type: RelayMessageType, fields: readonly unknown[], ...parts: readonly Uint8Array[]): void {
    if (type === 'credit') this.#quota.release(fields[0] as number, fields[1] as number);
    this.#wire.send(type, fields, ...parts);
  }

  /** Requests that are not over, or whose replies are under way. */
  get size(): number {
    return this.#requests.size;
  }

  handleTick(): void {
    if (!this.#wire.handleTick()) return this.end(new Error('the other node is silent'));
    for (const source of this.#sources.values()) source.handleTick();
    this.#inflows.tellConfirmed();
  }

  /** What the other node has under way to sessions of this one. */
  get inflows(): Pick<Inflows, 'end' | 'hold' | 'isHolding' | 'release'> {
    return this.#inflows;
  }

  end(why?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (why === undefined) this.#inflows.tellConfirmed();
    this.#wire.end();
    const { onOver, onSettled } = this.#options;
    onOver(why);
    this.#requests.clear();
    for (const source of this.#sources.values()) this.#close(source);
    this.#sources.clear();
    for (const id of this.#accounts) onSettled(id, false);
    this.#accounts.clear();
  }

  // --- as the listener of the wire

  onMessage(data: Uint8Array | string): void {
    if (this.#isOver) return;
    try {
      this.#handle(this.#wire.read(data));
    } catch (error) {
      this.end(error);
    }
  }
  onClose(code: number, reason: string): void {
    this.end(new ProtocolError('connection_failed', `closed with ${code} ${reason}`));
  }
  onFault(error: unknown): void {
    this.end(error);
  }
  onDrain(): void {}
  onControl(): void {}
  onData(): void {}

  #handle({ type, fields, bytes }: RelayMessage): void {
    switch (type) {
      case 'ping':
        return;
      case 'account':
      case 'report':
      case 'settled':
        return this.#handleAccount(type, textField(fields[0]), fields.slice(1));
    }
    const number = countField(fields[0]);
    switch (type) {
      case 'use':
        return this.#inflows.use(number, textField(fields[1]));
      case 'leave':
        return this.#inflows.leave(number);
      case 'holding':
        return this.#inflows.handleHolding(number, countField(fields[1]));
      case 'open':
        return this.#open(number, fields);
      case 'close': {
        this.#forged.delete(number);
        const source = this.#sources.get(number);
        if (source === undefined) return;
        this.#sources.delete(number);
        for (const [ref, asker] of this.#requests) if (asker === source) this.#forget(ref);
        return this.#close(source);
      }
      case 'message':
      case 'request':
      case 'tensor': {
        const source = this.#sources.get(number);
        if (source === undefined) return this.#refuseForged(type, number, fields);
        const [own, way] = [countField(fields[1]), countField(fields[2])];
        return this.#begin(type, source, own, way, fields.slice(3), bytes);
      }
    }
    const { relay } = this.#options;
    const source = this.#requests.get(number);
    if (source === undefined) return;
    switch (type) {
      case 'piece': {
        this.#countPiece(number, bytes.length);
        const charge = chargeOf(bytes.length);
        if (!this.#quota.hasRoom(charge)) return relay.requests.giveUp(source, number, tooMuch());
        this.#quota.hold(number, charge);
        relay.requests.takeNextPiece(source, number, { bytes, charge });
        return;
      }
      case 'cancel':
        source.handleCancel(number);
        relay.requests.cancel(source, number);
        return;
      case 'read':
        return source.handleRead(number, countField(fields[1]));
      default:
        throw malformed();
    }
  }

  /** @throws {ProtocolError} `bad_message` if the tensor is longer than announced. */
  #countPiece(ref: number, length: number): void {
    const left = (this.#tensors.get(ref) ?? 0) - length;
    if (length === 0 || left < 0) throw malformed();
    this.#tensors.set(ref, left);
  }

  #handleAccount(type: 'account' | 'report' | 'settled', id: string, fields: readonly unknown[]): void {
    const { onAccount, onReport, onSettled } = this.#options;
    switch (type) {
      case 'account': {
        if (this.#accounts.size >= MAX_SOURCES) throw malformed();
        const way = countField(fields[0]);
        const inflow = onAccount(id);
        if (inflow === undefined) return this.send('gone', [way, 0]);
        this.#accounts.add(id);
        return this.#inflows.use(way, id, inflow);
      }
      case 'report':
        if (this.#accounts.has(id)) onReport(id, readReport(fields));
        return;
      case 'settled':
        if (this.#accounts.delete(id)) onSettled(id, true);
    }
  }

  #open(number: number, [, id, principal, agentId, algorithms, encoding]: readonly unknown[]): void {
    if (this.#sources.has(number) || this.#sources.size + this.#forged.size >= MAX_SOURCES) throw malformed();
    const negotiated = readAgreement(algorithms, encoding);
    const agent = {
      sessionId: textField(id),
      principal: textField(principal),
      agentId: textField(agentId),
      negotiated,
    };
    if (!this.#options.maySpeakFor(agent)) {
      this.#forged.add(number);
      return this.#options.onForged(agent);
    }
    this.#sources.set(number, new RemoteSource(agent, this.#options, this, (ref) => this.#forget(ref)));
  }

  /** @throws {ProtocolError} `bad_message` if the sender was never introduced. */
  #refuseForged(type: RelayMessageType, number: number, fields: readonly unknown[]): void {
    if (!this.#forged.has(number)) throw malformed();
    const [own, why] = [countField(fields[1]), 'the node may not speak for the sender'];
    if (type === 'message') this.send('refused', [countField(fields[2]), own, 'forbidden', why]);
    else this.send('reject', [own, 'forbidden', why]);
  }

  #begin(
    type: 'message' | 'request' | 'tensor',
    source: RemoteSource,
    number: number,
    way: number,
    fields: readonly unknown[],
    bytes: Uint8Array,
  ): void {
    const { relay, find } = this.#options;
    const inflow = this.#inflows.get(way);
    if (type !== 'message') {
      if (this.#requests.has(number) || !source.begin(number)) throw malformed();
      this.#requests.set(number, source);
    }
    if (type === 'message') return this.#takeMessage(source, number, way, inflow, readBody(fields, bytes));
    const id = inflow?.id ?? '';
    const target = inflow?.isCut === false ? find(id) : undefined;
    const refuse = (error: unknown) =>
      source.tell((core) => core.channel.refuse(number, relay.transit.refuse(error, id)));
    if (target === undefined) {
      const gone = 'the session of the agent is over; it never had the request';
      return refuse(new ProtocolError('peer_gone', gone));
    }
    if (type === 'tensor')
      return this.#takeTensor(source, number, target, countField(fields[0]), bytes, refuse);
    const body = readBody(fields, bytes);
    if (!this.#quota.tryHold(number, body.charge)) return refuse(tooMuch());
    let size: number;
    try {
      size = this.#options.memoryOf(body, source, target);
    } catch (error) {
      return refuse(error);
    }
    source.intake.take(
      number,
      size,
      (reservation) => relay.requests.takeAdmitted(source, number, target, body, reservation),
      refuse,
    );
  }

  #takeTensor(
    source: RemoteSource,
    number: number,
    target: RelayTarget,
    totalLength: number,
    bytes: Uint8Array,
    refuse: (error: unknown) => void,
  ): void {
    if (bytes.length === 0 || totalLength < bytes.length) throw malformed();
    const charge = chargeOf(bytes.length);
    if (!this.#quota.tryHold(number, charge)) return refuse(tooMuch());
    this.#tensors.set(number, totalLength - bytes.length);
    this.#options.relay.requests.takeAdmittedTensor(source, number, target, { bytes, totalLength, charge });
  }

  #takeMessage(
    source: RemoteSource,
    number: number,
    way: number,
    inflow: Inflow | undefined,
    body: ReceivedBody,
  ): void {
    const { relay, memoryOf, find } = this.#options;
    const id = inflow?.id ?? '';
    const refuse = (error: unknown) => {
      const { code, message } = relay.transit.reasonOf(error, id);
      this.send('refused', [way, number, code, message.slice(0, 1_024)]);
    };
    const target = inflow?.isCut === false ? find(id) : undefined;
    if (target === undefined || inflow === undefined) return refuse(gone());
    if (!this.#quota.tryHoldMessage(body.charge)) return refuse(tooMuch());
    const release = () => this.#quota.releaseMessage(body.charge);
    const remote = {
      handleWritten: () => {
        release();
        inflow.toldConfirmed = inflow.confirmed;
        this.send('written', [way, ++inflow.written, inflow.confirmed]);
      },
      handleConfirmed: () => {
        inflow.confirmed++;
      },
      handleLost: () => {
        release();
        this.send('lost', [way, number]);
      },
      handleRefused: (error: ProtocolError) => {
        release();
        refuse(error);
      },
    };
    let size: number;
    try {
      size = memoryOf(body, source, target);
    } catch (error) {
      return remote.handleRefused(relay.transit.reasonOf(error, id));
    }
    source.intake.take(0, size, (reservation) => {
      const now = inflow.isCut ? undefined : find(id);
      try {
        if (now === undefined) throw gone();
        relay.messages.takeAdmitted(source, now, body, remote, reservation);
      } catch (error) {
        reservation?.release();
        remote.handleRefused(relay.transit.reasonOf(error, id));
      }
    });
  }

  #forget(ref: number): void {
    this.#requests.delete(ref);
    this.#tensors.delete(ref);
    this.#quota.forget(ref);
  }

  #close(source: RemoteSource): void {
    this.#options.relay.handleEnded(source);
    source.close();
  }
}

function gone(): ProtocolError {
  return new ProtocolError('peer_gone', 'the session of the agent is over');
}

function tooMuch(): ProtocolError {
  return new ProtocolError('over_budget', 'too much from the other node waits to be written');
}

/** Unknown names are left out. */
export function readAgreement(algorithms: unknown, encoding: unknown): RemoteSource['negotiated'] {
  if (!Array.isArray(algorithms)) throw malformed();
  return {
    algorithms: Object.values(Algorithm).filter((name) => algorithms.includes(name)),
    encoding: Object.values(EncodingName).find((name) => name === encoding) ?? null,
  };
}

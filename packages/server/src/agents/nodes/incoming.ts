import {
  Algorithm,
  EncodingName,
  ProtocolError,
  type ReceivedBody,
  type Undelivered,
} from '@parlance/protocol';
import type { Link, LinkEnd } from '../../cluster/link/link.js';
import {
  countField,
  type LinkMessage,
  malformed,
  shortField,
  textField,
} from '../../cluster/link/message.js';
import { MAX_PRINCIPAL_LENGTH } from '../../session/admission/authentication.js';
import type { MessageSequence } from '../received-marks.js';
import type { Relay } from '../relay.js';
import type { RelayTarget } from '../target.js';
import { type Inflow, Inflows } from './inflows.js';
import { AGENTS, chargeOf, type RelayMessageType, readBody, readReport } from './messages.js';
import { NotOwner, type SpeakingFor } from './not-owner.js';
import { type RemoteAgent, type RemoteHost, RemoteSource, type RemoteWire } from './remote-session.js';

export interface IncomingOptions extends RemoteHost, SpeakingFor {
  readonly relay: Relay;
  /** The session of an agent of this node. */
  readonly find: (sessionId: string) => RelayTarget | undefined;
  /** Whether the session takes what is new; `gone` if it is not known, and has not moved from here. */
  readonly accessTo: (sessionId: string) => 'open' | 'held' | 'gone';
  /** The other node keeps account of a session that has moved here. Returns what is known of messages to it. */
  readonly onAccount: (sessionId: string) => Inflow | undefined;
  /** A message of such a session is lost. */
  readonly onReport: (sessionId: string, report: Undelivered) => void;
  /** Such an account is closed. @param isComplete whether all messages were confirmed or reported. */
  readonly onSettled: (sessionId: string, isComplete: boolean) => void;
  readonly onOver: () => void;
}

/** Senders of one node, and sessions of moved agents of which it keeps account. */
export const MAX_SOURCES = 50_000;
/** Bytes that a sender, whether the node may speak for it or not, and a way take besides texts. */
const SOURCE_CHARGE = 4_096;
const WAY_CHARGE = 512;

/** The end of a link on which agents of another node write to agents of this one. */
export class IncomingRelay implements LinkEnd, RemoteWire {
  readonly #link: Link;
  readonly #options: IncomingOptions;
  readonly #sources = new Map<number, RemoteSource>();
  readonly #notOwner: NotOwner;
  readonly #requests = new Map<number, RemoteSource>();
  /** Bytes of each tensor that have not come yet. */
  readonly #tensors = new Map<number, number>();
  readonly #inflows: Inflows;
  readonly #accounts = new Set<string>();

  constructor(link: Link, options: IncomingOptions) {
    this.#link = link;
    this.#options = options;
    this.#notOwner = new NotOwner(options);
    this.#inflows = new Inflows(
      options.accessTo,
      (type, fields) => this.send(type, fields),
      (change) => this.#link.quota.add(change * WAY_CHARGE),
    );
  }

  send(type: RelayMessageType, fields: readonly unknown[], ...parts: readonly Uint8Array[]): void {
    if (type === 'credit') this.#link.quota.release(fields[0] as number, fields[1] as number);
    this.#link.answer(AGENTS, type, fields, ...parts);
  }

  /** Requests that are not over, or whose replies are under way. */
  get size(): number {
    return this.#requests.size;
  }

  handleTick(): void {
    for (const source of this.#sources.values()) source.handleTick();
    this.#inflows.tellConfirmed();
  }

  /** Messages that the other node has under way to sessions of this one. */
  get inflows(): Pick<
    Inflows,
    'beginAgain' | 'end' | 'hold' | 'isHolding' | 'isSettled' | 'release' | 'tellConfirmed'
  > {
    return this.#inflows;
  }

  handleEnding(): void {
    this.#inflows.tellConfirmed();
  }

  handleOver(): void {
    const { onOver, onSettled } = this.#options;
    onOver();
    this.#requests.clear();
    for (const source of this.#sources.values()) this.#close(source);
    this.#sources.clear();
    for (const id of this.#accounts) onSettled(id, false);
    this.#accounts.clear();
  }

  handle({ type, fields, bytes }: LinkMessage): void {
    switch (type) {
      case 'account':
      case 'report':
      case 'settled':
        return this.#handleAccount(type, textField(fields[0]), fields.slice(1));
    }
    const number = countField(fields[0]);
    switch (type) {
      case 'use':
        return this.#use(number, textField(fields[1]));
      case 'leave':
        return this.#inflows.leave(number);
      case 'holding':
        return this.#inflows.handleHolding(number, countField(fields[1]));
      case 'open':
        return this.#open(number, fields);
      case 'close': {
        const source = this.#sources.get(number);
        const sender = source ?? this.#notOwner.delete(number);
        if (sender !== undefined) this.#link.quota.add(-costOf(sender));
        if (source === undefined) return;
        this.#sources.delete(number);
        for (const ref of source.requests) this.#forget(ref);
        return this.#close(source);
      }
      case 'message':
      case 'request':
      case 'tensor': {
        const source = this.#sources.get(number) ?? this.#reconsider(number);
        if (source === undefined) return this.#refuseNotOwner(type, number, fields);
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
        if (!this.#link.quota.hasRoom(charge)) return relay.requests.giveUp(source, number, tooMuch());
        this.#link.quota.hold(number, charge);
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
        return this.#use(way, id, inflow);
      }
      case 'report':
        if (this.#accounts.has(id)) onReport(id, readReport(fields));
        return;
      case 'settled':
        if (this.#accounts.delete(id)) onSettled(id, true);
    }
  }

  /** @throws {ProtocolError} `bad_message`, `over_budget`. */
  #use(way: number, id: string, known?: Inflow): void {
    if (!this.#link.quota.hasRoom(WAY_CHARGE)) throw tooMuch();
    this.#inflows.use(way, id, known);
  }

  /** @throws {ProtocolError} `bad_message`, `over_budget`. */
  #open(number: number, [, id, principal, agentId, algorithms, encoding]: readonly unknown[]): void {
    const isTaken = this.#sources.has(number) || this.#notOwner.has(number);
    if (isTaken || this.#sources.size + this.#notOwner.size >= MAX_SOURCES) throw malformed();
    const negotiated = readAgreement(algorithms, encoding);
    const agent = {
      sessionId: shortField(id, MAX_ID),
      principal: shortField(principal, MAX_PRINCIPAL_LENGTH),
      agentId: shortField(agentId, MAX_ID),
      negotiated,
    };
    const cost = costOf(agent);
    if (!this.#link.quota.hasRoom(cost)) throw tooMuch();
    this.#link.quota.add(cost);
    if (this.#notOwner.check(number, agent)) this.#introduce(number, agent);
  }

  #reconsider(number: number): RemoteSource | undefined {
    const agent = this.#notOwner.take(number);
    return agent && this.#introduce(number, agent);
  }

  #introduce(number: number, agent: RemoteAgent): RemoteSource {
    const source = new RemoteSource(agent, this.#options, this, (ref) => this.#forget(ref));
    this.#sources.set(number, source);
    return source;
  }

  /** @throws {ProtocolError} `bad_message` if the sender was never introduced. */
  #refuseNotOwner(type: string, number: number, fields: readonly unknown[]): void {
    const refusal = this.#notOwner.refusalOf(number);
    if (refusal === undefined) throw malformed();
    const own = countField(fields[1]);
    if (type === 'message') this.send('refused', [countField(fields[2]), own, ...refusal]);
    else this.send('reject', [own, ...refusal]);
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
    if (type === 'message') {
      const place = { number: countField(fields[0]), isAgain: fields[1] === 1 };
      return this.#takeMessage(source, number, way, inflow, place, readBody(fields.slice(2), bytes));
    }
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
    if (!this.#link.quota.tryHold(number, body.charge)) return refuse(tooMuch());
    let size: number;
    try {
      size = relay.transit.memoryOf(body, source, target);
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
    if (!this.#link.quota.tryHold(number, charge)) return refuse(tooMuch());
    this.#tensors.set(number, totalLength - bytes.length);
    this.#options.relay.requests.takeAdmittedTensor(source, number, target, { bytes, totalLength, charge });
  }

  #takeMessage(
    source: RemoteSource,
    number: number,
    way: number,
    inflow: Inflow | undefined,
    place: MessageSequence,
    body: ReceivedBody,
  ): void {
    const { relay, find } = this.#options;
    const id = inflow?.id ?? '';
    const refuse = (error: unknown) => {
      const { code, message } = relay.transit.reasonOf(error, id);
      this.send('refused', [way, number, code, message.slice(0, 1_024)]);
    };
    const target = inflow?.isCut === false ? find(id) : undefined;
    if (target === undefined || inflow === undefined) return refuse(gone());
    if (!this.#link.quota.tryHoldMessage(body.charge)) return refuse(tooMuch());
    const release = () => this.#link.quota.releaseMessage(body.charge);
    const remote = {
      handleTaken: () => this.send('taken', [way, number]),
      handleAway: release,
      handleWritten: () => {
        release();
        inflow.toldConfirmed = inflow.confirmed;
        this.send('written', [way, number, ++inflow.written, inflow.confirmed]);
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
      size = relay.transit.memoryOf(body, source, target);
    } catch (error) {
      return remote.handleRefused(relay.transit.reasonOf(error, id));
    }
    source.intake.take(0, size, (reservation) => {
      const now = inflow.isCut ? undefined : find(id);
      try {
        if (now === undefined) throw gone();
        relay.messages.takeAdmitted(source, now, body, place, remote, reservation);
      } catch (error) {
        reservation?.release();
        remote.handleRefused(relay.transit.reasonOf(error, id));
      }
    });
  }

  #forget(ref: number): void {
    this.#requests.delete(ref);
    this.#tensors.delete(ref);
    this.#link.quota.forget(ref);
  }

  #close(source: RemoteSource): void {
    this.#options.relay.handleEnded(source);
    source.close();
  }
}

/** Characters of an ID. */
const MAX_ID = 128;

function costOf({ principal, agentId }: Pick<RemoteAgent, 'principal' | 'agentId'>): number {
  return SOURCE_CHARGE + 2 * (principal.length + agentId.length);
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

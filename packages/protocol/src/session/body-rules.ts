import { codecs } from '#codecs';
import { ADDRESSED_BY } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import type { StringMap } from '../base/fields.js';
import { isSet, type Limits } from '../base/limits.js';
import { algorithmOf } from '../codec/algorithms.js';
import { BodyCodec, type ReceivedBody } from '../codec/body.js';
import { isM2M } from '../codec/m2m/prefix.js';
import type { M2MSecurity } from '../codec/m2m/security.js';
import { type LinkParameters, linkParameters, type Negotiated } from '../control/agreement.js';
import type { Addressing } from '../link/addressing.js';
import { decodeLinkFrame, isBodyKind } from '../link/frame.js';
import type { BodyToSend, OutgoingTransfer } from '../link/link.js';

/** The limits that an end must respect: a client those that its server announced, a server none. */
const ANNOUNCED_TO = {
  client: ({ limits }: Negotiated) => limits,
  server: (): Negotiated['limits'] => NO_LIMITS,
} as const;
const NO_LIMITS: Negotiated['limits'] = Object.freeze({});

/** The largest message in bytes, coded or not, that this end may send. */
export function maxMessageSize(role: 'client' | 'server', negotiated: Negotiated, limits: Limits): number {
  return Math.min(
    negotiated.maxPayloadSize || Infinity,
    ANNOUNCED_TO[role](negotiated)['maxMessageSize'] ?? Infinity,
    limits.maxMessageSize,
  );
}

/** The names that bodies of a session may be addressed to. */
export function addressingOf({ extensions }: Negotiated): Addressing | undefined {
  const by = Object.keys(ADDRESSED_BY).find((name) => extensions[name] !== undefined);
  return by === undefined ? undefined : ADDRESSED_BY[by];
}

/** The peer's parameters of its link, within the limits that it announced. */
export function peerLink({ role, negotiated, peerExtensions }: BodyRulesOptions): LinkParameters {
  const peer = linkParameters(peerExtensions);
  const announced = ANNOUNCED_TO[role](negotiated)['maxStreams'] ?? Infinity;
  return { ...peer, maxStreams: Math.min(peer.maxStreams, announced) };
}

export interface BodyRulesOptions {
  readonly role: 'client' | 'server';
  readonly limits: Limits;
  readonly negotiated: Negotiated;
  /** The extensions that the peer stated. */
  readonly peerExtensions: StringMap;
  /** Protection that every body must have, in either direction. @default none */
  readonly security?: M2MSecurity | undefined;
}

/** Holds outgoing bodies against what the peer accepts, and received ones against what was negotiated. */
export class BodyRules {
  readonly #negotiated: Negotiated;
  readonly #security: M2MSecurity | undefined;
  readonly #addressing: Addressing | undefined;
  /** The peer reads one-way messages and tensors that are for itself. */
  readonly #takesMessages: boolean;
  readonly #maxMessage: number;
  /** The end, or ends, with that limit. */
  readonly #whose: string;
  readonly #maxTransfer: number;

  constructor(options: BodyRulesOptions) {
    const { role, limits, negotiated, security } = options;
    const { takesMessages, maxTransfer } = peerLink(options);
    this.#negotiated = negotiated;
    this.#security = security;
    this.#addressing = addressingOf(negotiated);
    this.#takesMessages = takesMessages;
    this.#maxMessage = maxMessageSize(role, negotiated, limits);
    const isTheirs = ANNOUNCED_TO[role](negotiated)['maxMessageSize'] === this.#maxMessage;
    // A limit that a client has not set is the one that its server states.
    const isOwn =
      limits.maxMessageSize === this.#maxMessage && (!isTheirs || isSet(limits, 'maxMessageSize'));
    this.#whose = !isOwn ? 'of the peer' : isTheirs ? 'of both ends' : 'of this end';
    const announced = ANNOUNCED_TO[role](negotiated)['maxTransferSize'];
    this.#maxTransfer = Math.min(maxTransfer, announced ?? limits.maxTransferSize);
  }

  // --- outgoing

  /** @throws {ProtocolError} `unsupported`, `security_required`, `message_too_large`. */
  assertBody({ codec, originalLength, bytes, address }: BodyToSend): void {
    this.#assertAddressable(address);
    if (this.#security !== undefined && codec !== BodyCodec.M2M) throw unprotected();
    const size = Math.max(originalLength, bytes.length);
    if (size <= this.#maxMessage) return;
    const message = `${size} bytes are more than the ${this.#maxMessage} of maxMessageSize in limits ${this.#whose}`;
    throw new ProtocolError('message_too_large', message);
  }

  /** A one-way message. @throws {ProtocolError} as {@link assertBody}. */
  assertMessage(body: BodyToSend): void {
    this.assertBody(body);
    this.#assertRead(body.address);
  }

  /** @throws {ProtocolError} `unsupported`, `transfer_too_large`. */
  assertTransfer({ payloadSize, address }: Pick<OutgoingTransfer, 'payloadSize' | 'address'>): void {
    this.#assertAddressable(address);
    this.#assertRead(address);
    if (this.#security !== undefined) {
      throw new ProtocolError(
        'unsupported',
        'tensors cannot be protected, so a session with the option "security" sends none',
      );
    }
    if (payloadSize <= this.#maxTransfer) return;
    throw new ProtocolError(
      'transfer_too_large',
      `a tensor of ${payloadSize} bytes is larger than the ${this.#maxTransfer} that the peer accepts`,
    );
  }

  #assertRead(address: string | undefined): void {
    if (address !== undefined || this.#takesMessages) return;
    throw new ProtocolError(
      'unsupported',
      'the peer reads no one-way messages and no tensors: a server without onSession answers requests only',
    );
  }

  #assertAddressable(address: string | undefined): void {
    if (address === undefined || this.#addressing === 'all' || this.#addressing === address) return;
    throw new ProtocolError(
      'unsupported',
      'addressing was not negotiated; a server agrees to it only with the option "authenticate"',
    );
  }

  // --- received

  /** A link frame, before it is read. @throws {ProtocolError} `security_required`. */
  assertFrame(bytes: Uint8Array): void {
    if (this.#security === undefined) return;
    const { kind, codec } = decodeLinkFrame(bytes);
    // Only M2M can be protected; its header says whether it is, once the body is complete.
    if (isBodyKind(kind) && codec !== BodyCodec.M2M) throw unprotected();
  }

  /** A bare frame, before it is decoded. @throws {ProtocolError} `security_required`. */
  assertPlain(data: Uint8Array | string): void {
    if (this.#security !== undefined && !isM2M(data)) throw unprotected();
  }

  /**
   * Checks a whole body and opens a protected one. This happens on arrival, not when the application reads the
   * body: a body that is not authentic must not start a handler, whose answer would be protected with the key.
   *
   * @throws {ProtocolError} `bad_frame`, `security_required`, `authentication_failed`, and for a malformed header.
   */
  open(body: ReceivedBody): ReceivedBody {
    this.#assertNegotiated(body);
    if (this.#security === undefined) return body;
    return { ...body, opened: codecs.m2m.get().openM2MBody(body.bytes, this.#security) };
  }

  /** AVP is never negotiated; an empty body has no codec. */
  #assertNegotiated({ codec, bytes }: ReceivedBody): void {
    if (codec === BodyCodec.PLAIN && bytes.length === 0) return;
    const algorithm = algorithmOf(codec);
    const { algorithms } = this.#negotiated;
    // The link refuses bodies in context unless context was negotiated.
    const isExempt = codec === BodyCodec.AVP || codec === BodyCodec.CONTEXT;
    if (algorithm === undefined ? isExempt : algorithms.includes(algorithm)) return;
    throw new ProtocolError(
      'bad_frame',
      `a body coded as ${algorithm ?? `codec ${codec}`}, which was not negotiated`,
    );
  }
}

function unprotected(): ProtocolError {
  return new ProtocolError('security_required', 'the option "security" demands protected M2M bodies');
}

import { decodeBareFrame, decodeTextForm, encodeBareFrame, encodeTextForm } from './bare.js';
import { Extension, Subprotocol } from './constants.js';
import { ProtocolError } from './errors.js';
import type { Limits } from './limits.js';
import { algorithmOf } from './link/algorithms.js';
import type { ReceivedBody } from './link/assembly.js';
import { LinkCodec } from './link/header.js';
import { type CodedBody, createLink, type Link, type LinkEvent, type LinkParameters } from './link/link.js';
import type { Outbox } from './link/outbox.js';
import type { DataPayload } from './messages.js';
import type { Negotiated } from './session-core.js';

/**
 * Bodies in and out of an established session: over the link where it was negotiated, else as bare
 * frames or JSON envelopes. What is sent is held against what the peer takes, what arrives against
 * what was agreed.
 */
export interface DataPath {
  /** `undefined` where the link was not negotiated. */
  readonly link: Link | undefined;

  /** A link frame. @throws {ProtocolError} which ends the session. */
  handleLinkFrame(frame: Uint8Array, now: number): LinkEvent | undefined;
  /** A bare data frame, or the content of a text message or a DATA envelope. */
  handleBare(data: Uint8Array | string): LinkEvent;

  /** @throws {ProtocolError} `unrepresentable`, `unsupported`, `message_too_large`. */
  send(body: CodedBody): void;
  /** The link, for a body that it can take. @throws {ProtocolError} `unsupported`, `message_too_large`. */
  linkFor(body: CodedBody): Link;
}

export interface DataPathOptions {
  readonly role: 'client' | 'server';
  readonly subprotocol: Subprotocol;
  /** Bounds of what is received. */
  readonly limits: Limits;
  readonly negotiated: Negotiated;
  /** What either end states about its link. */
  readonly own: LinkParameters;
  readonly peer: LinkParameters;
  readonly outbox: Outbox;
  /** Writes a DATA envelope. */
  readonly sendData: (payload: DataPayload) => void;
}

export function createDataPath(options: DataPathOptions): DataPath {
  const { role, subprotocol, limits, negotiated, outbox } = options;
  const { encoding, algorithms } = negotiated;
  // Only a client is told limits to respect; a server respects its own.
  const stated = role === 'client' ? negotiated.limits : {};
  const maxMessage = Math.min(
    negotiated.maxPayloadSize || Infinity,
    stated['maxMessageSize'] ?? Infinity,
    limits.maxMessageSize,
  );
  const maxTransfer = stated['maxTransferSize'] ?? limits.maxTransferSize;

  const link =
    negotiated.extensions[Extension.LINK] === undefined
      ? undefined
      : createLink({ side: role, limits, own: options.own, peer: options.peer, outbox });

  /** AVP is no negotiated algorithm, and nothing at all is not coded as anything. */
  const assertNegotiated = ({ codec, bytes }: ReceivedBody): void => {
    if (codec === LinkCodec.PLAIN && bytes.length === 0) return;
    const algorithm = algorithmOf(codec);
    if (algorithm === undefined ? codec === LinkCodec.AVP : algorithms.includes(algorithm)) return;
    throw new ProtocolError(
      'bad_frame',
      `a body coded as ${algorithm ?? `codec ${codec}`}, which was not negotiated`,
    );
  };

  const assertSize = (body: CodedBody): void => {
    const transfer = body.codec === LinkCodec.AVP;
    const max = transfer ? maxTransfer : maxMessage;
    const size = Math.max(body.originalLength, body.bytes.length);
    if (size <= max) return;
    throw new ProtocolError(
      transfer ? 'transfer_too_large' : 'message_too_large',
      `${size} bytes are more than the ${max} that the peer takes`,
    );
  };

  const sendBare = (body: CodedBody): void => {
    if (subprotocol === Subprotocol.BINARY) {
      outbox.pushControl(encodeBareFrame(body, encoding));
      return;
    }
    const algorithm = algorithmOf(body.codec);
    if (algorithm === undefined) {
      throw new ProtocolError('unsupported', `${Subprotocol.JSON} carries text only, no tensors`);
    }
    const content = encodeTextForm(body, encoding);
    options.sendData({ algorithm, content, originalSize: body.originalLength });
  };

  return {
    link,

    handleLinkFrame(frame, now) {
      const event = link?.handleFrame(frame, now);
      if (event !== undefined && 'body' in event) assertNegotiated(event.body);
      return event;
    },

    handleBare(data) {
      if (link !== undefined)
        throw new ProtocolError('bad_frame', 'a bare data frame where link was negotiated');
      const body =
        typeof data === 'string' ? decodeTextForm(data, encoding) : decodeBareFrame(data, encoding);
      assertNegotiated(body);
      return { type: 'message', body };
    },

    send(body) {
      assertSize(body);
      if (link === undefined) sendBare(body);
      else link.send(body);
    },

    linkFor(body) {
      assertSize(body);
      if (link !== undefined) return link;
      throw new ProtocolError(
        'unsupported',
        'requests, streams and tensors need the link extension, which was not negotiated',
      );
    },
  };
}

import { platform } from '#platform';
import { catchLate } from '../../base/callbacks.js';
import { ProtocolError } from '../../base/errors.js';
import { encodeAvp, payloadOf } from '../../codec/avp/frame.js';
import { encodeAvpTextMessage } from '../../codec/avp/hello.js';
import { encodeTrailer, encodeTransferHead, TRAILER_SIZE } from '../../codec/avp/transfer.js';
import type { SessionCore } from '../../session/types.js';
import type { Reply } from '../requests/reply.js';
import type { Requester } from '../requests/requester.js';
import type { SendTensorOptions } from './send-options.js';
import { piecesOf, tensorSize } from './source.js';
import type { TensorInput } from './tensor.js';

export interface TensorSenderOptions {
  readonly core: SessionCore;
  readonly requester: Requester;
  /** Writes what was given to the core and handles its events. */
  readonly pump: () => void;
  /**
   * Resolves when everything that was fed to stream `streamId` is written, or the peer no longer wants it.
   */
  readonly written: (streamId: number) => Promise<void>;
  /** Sends a one-way message. */
  readonly sendText: (text: string) => Promise<void>;
  /** The IDs of the sender and the receiver; empty if it has none. */
  readonly ends: { readonly source: string; readonly target: string };
  /** The peer has accepted a tensor, or has not for this reason. */
  readonly onOver: (error: unknown) => void;
}

/** Bytes up to which a view is sent as one frame, with the checksum in its head. */
const MAX_WHOLE_SIZE = 64 * 1024;

/** Sends the tensors of one session. */
export class TensorSender {
  readonly #options: TensorSenderOptions;

  constructor(options: TensorSenderOptions) {
    this.#options = options;
  }

  /**
   * See `Session.sendTensor`.
   *
   * @param address of the receiver, if that is not the peer itself. The AVP agreement with the peer does
   * not apply to it.
   */
  async send(tensor: TensorInput, address: string | undefined, options: SendTensorOptions): Promise<void> {
    const avp = address === undefined ? this.#options.core.negotiated?.avp : undefined;
    if (avp?.mode === 'json') return await this.#sendFallback(tensor, options);
    const mapped = avp === undefined || avp.mapId === '' ? tensor : withMap(tensor, avp.mapId);
    const { onOver } = this.#options;
    try {
      await this.#sendTensor(mapped, address, options);
      onOver(undefined);
    } catch (error) {
      onOver(error);
      throw error;
    }
  }

  async #sendTensor(
    tensor: TensorInput,
    address: string | undefined,
    { signal, onProgress }: SendTensorOptions,
  ): Promise<void> {
    const { core, requester } = this.#options;
    const size = tensorSize(tensor);
    const { data } = tensor;
    const open = (totalLength: number, first: Uint8Array): Reply => {
      const command = () => core.channel.transfer({ payloadSize: size, totalLength, first, address });
      return requester.open(command, first.length, { signal });
    };
    if (ArrayBuffer.isView(data)) {
      if (size <= MAX_WHOLE_SIZE) {
        const frame = encodeAvp({ ...tensor, data });
        await open(frame.length, frame).whole();
        catchLate(onProgress?.(size, size), ignore);
        return;
      }
      // Reports an invalid view before anything is sent.
      payloadOf({ ...tensor, data });
    }
    const head = encodeTransferHead(tensor, size);
    const reply = open(head.length + size + TRAILER_SIZE, head);
    const whole = reply.whole();
    const pieces = piecesOf(data);
    let isSent = false;
    this.#feed(reply, pieces, size, onProgress).then(
      (isComplete) => {
        isSent = isComplete;
      },
      (error: unknown) => reply.abort(error),
    );
    try {
      await whole;
      if (isSent) return;
      throw new ProtocolError('protocol_violation', 'the peer confirmed a tensor before it was sent', {
        side: 'remote',
      });
    } finally {
      // Not awaited: it settles only after the pending next() of the source.
      pieces.return().catch(ignore);
    }
  }

  /** Sends the data and its checksum, piece by piece. Resolves to false if the peer no longer wants them. */
  async #feed(
    reply: Reply,
    pieces: AsyncIterator<Uint8Array, void>,
    size: number,
    onProgress: SendTensorOptions['onProgress'],
  ): Promise<boolean> {
    const { core, pump, written, requester } = this.#options;
    await requester.queue.over(reply);
    const { id } = reply;
    let sent = 0;
    let crc = 0;
    for (;;) {
      const { value: piece, done } = await pieces.next();
      if (reply.isOver) return false;
      if (done === true) break;
      sent += piece.length;
      if (sent > size) throw new ProtocolError('bad_tensor', `data has more than the stated ${size} bytes`);
      crc = platform.crc32(piece, crc);
      core.channel.feed(id, piece);
      pump();
      await written(id);
      if (reply.isOver) return false;
      catchLate(onProgress?.(sent, size), (error) => reply.abort(error));
    }
    if (sent < size)
      throw new ProtocolError('bad_tensor', `data has only ${sent} of the stated ${size} bytes`);
    // Sent only now: without the trailer, data that turned out to be invalid is never complete.
    core.channel.feed(id, encodeTrailer(crc));
    pump();
    return true;
  }

  /** Sends AVP's text message instead, because the two models cannot exchange tensors. */
  async #sendFallback({ metadata }: TensorInput, { fallback, signal }: SendTensorOptions): Promise<void> {
    if (fallback === undefined) {
      throw new ProtocolError(
        'unsupported',
        'the models of the two ends cannot exchange tensors; set the option fallback to send a text instead',
      );
    }
    const content = typeof fallback === 'function' ? await fallback() : fallback;
    signal?.throwIfAborted();
    const { core, ends, sendText } = this.#options;
    const extra = metadata?.extra ?? {};
    await sendText(
      encodeAvpTextMessage({
        sessionId: metadata?.sessionId ?? core.id ?? '',
        sourceAgentId: metadata?.sourceAgentId ?? ends.source,
        targetAgentId: metadata?.targetAgentId ?? ends.target,
        content,
        extra: extra instanceof Map ? Object.fromEntries(extra) : extra,
      }),
    );
  }
}

/** Adds the agreed map unless the sender names one itself. */
function withMap(tensor: TensorInput, avpMapId: string): TensorInput {
  return { ...tensor, metadata: { avpMapId, ...tensor.metadata } };
}

const ignore = () => {};

import { platform } from '#platform';
import { ProtocolError } from '../../base/errors.js';
import { encodeAvp, payloadOf } from '../../codec/avp/frame.js';
import { encodeAvpTextMessage } from '../../codec/avp/hello.js';
import { encodeTrailer, encodeTransferHead, TRAILER_SIZE } from '../../codec/avp/transfer.js';
import type { SessionCore } from '../../session/types.js';
import type { Reply } from '../requests/reply.js';
import type { Requester } from '../requests/requester.js';
import type { SendTensorOptions } from '../session.js';
import { piecesOf, tensorSize } from './source.js';
import type { TensorInput } from './tensor.js';

export interface TensorSenderOptions {
  readonly core: SessionCore;
  readonly requester: Requester;
  /** Commands were given to the core. */
  readonly pump: () => void;
  /** Resolves when everything that was fed to `streamId` is written, or nobody wants it any more. */
  readonly written: (streamId: number) => Promise<void>;
  /** Sends a one-way message. */
  readonly sendText: (text: string) => Promise<void>;
  /** Who sends and who receives, as far as they have names. */
  readonly agents: { readonly source: string; readonly target: string };
}

/** A view up to this size travels as one frame with its checksum in front. */
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
   * @param agent whom it is for, where that is not the other end; what the two ends agreed on then says
   * nothing about it.
   */
  async send(tensor: TensorInput, agent: string | undefined, options: SendTensorOptions): Promise<void> {
    const avp = agent === undefined ? this.#options.core.negotiated?.avp : undefined;
    if (avp?.mode === 'json') return await this.#sendFallback(tensor, options);
    const mapped = avp === undefined || avp.mapId === '' ? tensor : withMap(tensor, avp.mapId);
    await this.#sendTensor(mapped, agent, options);
  }

  async #sendTensor(
    tensor: TensorInput,
    agent: string | undefined,
    { signal, onProgress }: SendTensorOptions,
  ): Promise<void> {
    const { core, requester } = this.#options;
    const size = tensorSize(tensor);
    const { data } = tensor;
    const open = (totalLength: number, first: Uint8Array): Reply => {
      const command = () => core.channel.transfer({ payloadSize: size, totalLength, first, agent });
      return requester.open(command, { signal });
    };
    if (ArrayBuffer.isView(data)) {
      if (size <= MAX_WHOLE_SIZE) {
        const frame = encodeAvp({ ...tensor, data });
        await open(frame.length, frame).whole();
        onProgress?.(size, size);
        return;
      }
      // What is wrong with a view is known before anything of it is sent.
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
      throw new ProtocolError('protocol_violation', 'a tensor was confirmed before it was sent', {
        side: 'remote',
      });
    } finally {
      // Not waited for: a source that is asked for its next chunk answers only then.
      pieces.return().catch(ignore);
    }
  }

  /** Brings the payload and its checksum, one piece at a time. `false` where nobody wants them any more. */
  async #feed(
    reply: Reply,
    pieces: AsyncIterator<Uint8Array, void>,
    size: number,
    onProgress: SendTensorOptions['onProgress'],
  ): Promise<boolean> {
    const { core, pump, written } = this.#options;
    const { id } = reply;
    let sent = 0;
    let crc = 0;
    for (;;) {
      const { value: piece, done } = await pieces.next();
      if (reply.isOver) return false;
      if (done === true) break;
      sent += piece.length;
      if (sent > size) throw new ProtocolError('bad_tensor', `data holds more than the ${size} bytes stated`);
      crc = platform.crc32(piece, crc);
      core.channel.feed(id, piece);
      pump();
      await written(id);
      if (reply.isOver) return false;
      onProgress?.(sent, size);
    }
    if (sent < size) throw new ProtocolError('bad_tensor', `data holds ${sent} of the ${size} bytes stated`);
    // Only now: without it nothing is complete that turns out to be wrong at its end.
    core.channel.feed(id, encodeTrailer(crc));
    pump();
    return true;
  }

  /** AVP's text message, for two models that have nothing in common. */
  async #sendFallback({ metadata }: TensorInput, { fallback, signal }: SendTensorOptions): Promise<void> {
    if (fallback === undefined) {
      throw new ProtocolError(
        'unsupported',
        'the models of the two ends cannot exchange tensors; give a fallback text to send instead',
      );
    }
    const content = typeof fallback === 'function' ? await fallback() : fallback;
    signal?.throwIfAborted();
    const { core, agents, sendText } = this.#options;
    const extra = metadata?.extra ?? {};
    await sendText(
      encodeAvpTextMessage({
        sessionId: metadata?.sessionId ?? core.id ?? '',
        sourceAgentId: metadata?.sourceAgentId ?? agents.source,
        targetAgentId: metadata?.targetAgentId ?? agents.target,
        content,
        extra: extra instanceof Map ? Object.fromEntries(extra) : extra,
      }),
    );
  }
}

/** A map that the sender names itself is taken at its word. */
function withMap(tensor: TensorInput, avpMapId: string): TensorInput {
  return { ...tensor, metadata: { avpMapId, ...tensor.metadata } };
}

const ignore = () => {};

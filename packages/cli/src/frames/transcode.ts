import {
  Algorithm,
  type AvpInput,
  decodeAvp,
  decodeM2M,
  decodeText,
  decodeTokenNative,
  decodeTokenNativeText,
  detectAlgorithm,
  type EncodeAvpOptions,
  type EncodingName,
  encodeAvp,
  encodeM2M,
  encodeText,
  encodeTokenNative,
  FrameKind,
  frameKind,
  loadCodecs,
  loadEncoding,
} from '@parlance/protocol';
import { chatRequest } from '../base/chat-request.js';
import { CommandFailure } from '../base/failure.js';
import { asFrame, readInput, textOf } from '../base/input.js';

export type Codec = Algorithm | 'AVP';

export interface EncodeCommandOptions {
  readonly algorithm: Codec;
  /** Vocabulary of TOKEN_NATIVE. */
  readonly encoding: EncodingName;
  /** Write the binary form instead of text. */
  readonly binary: boolean;
  /** Turns text into a chat request for this model; for a tensor, the model that produced it. */
  readonly model: string | undefined;
  readonly dtype: AvpInput['dtype'];
  readonly shape: readonly number[];
  readonly payloadType: AvpInput['payloadType'];
  readonly compression: NonNullable<EncodeAvpOptions['compression']>;
}

/** `parlance encode`. @returns text, or the bytes of a binary form. */
export async function encode(file: string, options: EncodeCommandOptions): Promise<Uint8Array | string> {
  const { algorithm, encoding, binary, model } = options;
  const input = await readInput(file);
  await loadCodecs([algorithm]);
  if (algorithm === 'AVP') {
    const { dtype, shape, payloadType, compression } = options;
    const metadata = { modelId: model };
    return encodeAvp({ data: input, dtype, shape, payloadType, metadata }, { compression });
  }
  const content = textOf(input);
  if (content === undefined)
    throw new CommandFailure(`${algorithm} encodes text, but the input is not UTF-8`);
  const text =
    model === undefined ? content : JSON.stringify(chatRequest(model, [{ role: 'user', content }]));
  if (algorithm === Algorithm.TOKEN_NATIVE) await loadEncoding(encoding);
  if (!binary) return encodeText(text, algorithm, { encoding });
  switch (algorithm) {
    case Algorithm.TOKEN_NATIVE:
      return encodeTokenNative(text, encoding);
    case Algorithm.M2M:
      return encodeM2M(text);
    default:
      throw new CommandFailure(`${algorithm} has no binary form outside a session; omit --binary`);
  }
}

/**
 * `parlance decode`.
 *
 * @param algorithm the expected codec. @default detected from the beginning of the input
 * @returns the content.
 */
export async function decode(file: string, algorithm: Codec | undefined): Promise<Uint8Array | string> {
  const frame = asFrame(await readInput(file));
  const found = codecOf(frame);
  if (algorithm !== undefined && algorithm !== found) {
    throw new CommandFailure(
      `the input is ${found === Algorithm.NONE ? 'plain text' : found}, not ${algorithm}`,
    );
  }
  await loadCodecs([Algorithm.BROTLI, 'AVP']);
  if (found === 'AVP') return decodeAvp(frame as Uint8Array).data;
  if (found === Algorithm.TOKEN_NATIVE) {
    await loadEncoding(decodeTokenNative(frame).encoding);
    return decodeTokenNativeText(frame);
  }
  return typeof frame === 'string' ? decodeText(frame, { zlib: true }) : decodeM2M(frame).bytes;
}

function codecOf(frame: Uint8Array | string): Codec | 'ZLIB' {
  if (typeof frame === 'string') return detectAlgorithm(frame);
  switch (frameKind(frame)) {
    case FrameKind.AVP:
      return 'AVP';
    case FrameKind.TOKEN_NATIVE:
      return Algorithm.TOKEN_NATIVE;
    case FrameKind.TAGGED:
      return Algorithm.M2M;
    default:
      throw new CommandFailure('the input is a frame of a session, not a message; use parlance inspect');
  }
}

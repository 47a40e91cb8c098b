import {
  type AssembledTensor,
  type AvpOptions,
  type ClientOptions,
  type ModelIdentity,
  modelIdentity,
  type ReceivedTensor,
  type SendTensorOptions,
  type Session,
  type StreamedTensor,
  type TensorInput,
} from '@parlance/client';

/** Tensors between two agents of one model. */

const configJson =
  '{"model_type":"llama","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":32}';

const identity: ModelIdentity = modelIdentity(configJson);
const avp: AvpOptions = { identity, capabilities: { latent: true }, maps: new Set(['llama-to-qwen']) };
export const options: ClientOptions = { avp, transfers: 'stream' };

export const hiddenState: TensorInput = {
  data: new Float32Array(2 * 4096),
  shape: [2, 4096],
  dtype: 'float32',
  payloadType: 'hidden_state',
};

/** A KV-cache, generated layer by layer. */
export function cacheOf(layers: AsyncIterable<Uint8Array>, byteLength: number): TensorInput {
  return { data: layers, byteLength, dtype: 'bfloat16', payloadType: 'kv_cache' };
}

export async function handOver(session: Session, tensor: TensorInput, to: string): Promise<boolean> {
  if (session.negotiated.avp?.mode === 'json') return false;
  const options: SendTensorOptions = {
    to,
    onProgress: (bytes, total) => console.log(`${Math.round((100 * bytes) / total)} %`),
    signal: AbortSignal.timeout(60_000),
    fallback: async () => 'what the tensor means, in words',
  };
  await session.sendTensor(tensor, options);
  return true;
}

export async function read(tensor: ReceivedTensor): Promise<number> {
  return tensor.data === undefined ? await readStream(tensor) : readWhole(tensor);
}

async function readStream(tensor: StreamedTensor): Promise<number> {
  let bytes = 0;
  for await (const chunk of tensor.chunks) {
    bytes += chunk.byteLength;
    if (bytes > tensor.byteLength / 2) tensor.cancel();
  }
  return bytes;
}

function readWhole({ data, shape, metadata }: AssembledTensor): number {
  console.log(shape.join(' × '), metadata);
  return data.byteLength;
}

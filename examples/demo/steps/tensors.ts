import { createHash } from 'node:crypto';
import { connect } from '@parlance/client';
import { type AvpInput, decodeKvCache, encodeKvCache } from '@parlance/protocol';
import WebSocket from 'ws';
import type { Report } from '../report.js';

const DIMENSIONS = 4096;

interface NamedTensor {
  readonly name: string;
  readonly tensor: AvpInput;
}

/** (e) Sends a hidden state and a KV-cache as AVP frames; they come back bit for bit. */
export async function showTensors(url: string, report: Report): Promise<void> {
  report.section('Tensors: arrays of numbers from inside a model');
  await using session = await connect(url, { WebSocket });
  const rows: (string | number)[][] = [];
  for (const { name, tensor } of [hiddenState(), keyValueCache()]) {
    const before = session.stats().sent.wireBytes;
    await session.sendTensor(tensor);
    const sent = session.stats().sent.wireBytes - before;
    const echoes = session[Symbol.asyncIterator]();
    const { value: message } = await echoes.next();
    await echoes.return?.();
    const { tensor: received } = message;
    const original = bytesOf(tensor.data);
    rows.push([name, tensor.dtype, tensor.shape?.join(' × ') ?? 'in the header', original.length, sent]);
    report.check(
      `${name}: verified by checksum at both ends, and identical bit for bit`,
      received !== undefined && original.equals(received.data) && received.dtype === tensor.dtype,
      `sha256 ${createHash('sha256')
        .update(received?.data ?? '')
        .digest('hex')
        .slice(0, 12)}…`,
    );
    if (name === 'KV-cache' && received !== undefined) {
      const cache = decodeKvCache(received.data);
      report.check(
        'KV-cache: its header tells how many layers and tokens it has',
        cache.numLayers === 2 && cache.seqLen === 16,
      );
    }
  }
  report.table(['tensor', 'dtype', 'shape', 'bytes', 'on the socket'], rows);
}

function hiddenState(): NamedTensor {
  const data = new Float32Array(DIMENSIONS);
  for (let i = 0; i < data.length; i++) data[i] = Math.sin(i * 12.9898) * 10 ** ((i % 9) - 4);
  return {
    name: 'hidden state',
    tensor: { data, shape: [DIMENSIONS], dtype: 'float32', payloadType: 'hidden_state' },
  };
}

function keyValueCache(): NamedTensor {
  const shape = { numLayers: 2, numKvHeads: 4, headDim: 32, seqLen: 16 };
  const size = shape.numKvHeads * shape.seqLen * shape.headDim;
  const fill = (seed: number) => Float32Array.from({ length: size }, (_, i) => Math.cos(seed + i));
  const layers = Array.from({ length: shape.numLayers }, (_, layer) => ({
    key: fill(layer),
    value: fill(layer + 0.5),
  }));
  const data = encodeKvCache(layers, { ...shape, dtype: 'float32' });
  return { name: 'KV-cache', tensor: { data, dtype: 'float32', payloadType: 'kv_cache' } };
}

function bytesOf(view: ArrayBufferView): Buffer {
  return Buffer.from(view.buffer, view.byteOffset, view.byteLength);
}

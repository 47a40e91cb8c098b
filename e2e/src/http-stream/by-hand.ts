import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { decodeControl, encodeControl } from '@parlance/protocol';
import { encodeRecords, RecordReader } from '@parlance/protocol/records';
import { expect } from 'vitest';
import { helloBytes } from '../kit/peers.js';

/** Requests of sessions over HTTP, one by one. */

export const OCTETS = { 'content-type': 'application/octet-stream' };
export const HELLO = encodeRecords([helloBytes() as Uint8Array]);
export const PING = encodeControl({
  type: 'PING',
  sessionId: null,
  timestamp: 1,
  payload: {},
} as never) as Uint8Array;

type Headers = Readonly<Record<string, string | number>>;

/** A POST whose answer is read until its end. */
export async function post(
  port: number,
  path: string,
  body: Uint8Array,
  headers: Headers = {},
  method = 'POST',
): Promise<{ status: number; headers: IncomingMessage['headers']; body: Buffer }> {
  const request = httpRequest({ port, path, method, headers: { ...OCTETS, ...headers }, agent: false });
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) };
}

/** A stream that the test reads. */
export async function open(port: number, body: Uint8Array = HELLO, headers: Headers = {}) {
  const request = httpRequest({
    port,
    path: '/session/stream',
    method: 'POST',
    headers: { ...OCTETS, ...headers },
    agent: false,
  });
  request.on('error', () => {});
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const records: Uint8Array[] = [];
  let closed: { code: number; reason: string } | undefined;
  const reader = new RecordReader(1e6, {
    onRecord: (frame) => records.push(Uint8Array.from(frame)),
    onClose: (code, reason) => {
      closed = { code, reason };
    },
  });
  response.on('data', (chunk: Buffer) => reader.push(chunk)).on('error', () => {});
  const over = new Promise((resolve) => response.once('close', resolve));
  await expect.poll(() => records.length > 0 || response.closed).toBe(true);
  const key = records[0] as Uint8Array;
  const types = () => records.slice(1).map((frame) => decodeControl(frame).type);
  return { request, response, key, records, types, over, closed: () => closed };
}

/** The body of a request with frames. */
export function frames(key: Uint8Array, number: number, ...given: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const head = Buffer.concat([Buffer.alloc(4), key]);
  head.writeUInt32LE(number);
  return encodeRecords([head, ...given]);
}

import {
  type ControlMessage,
  decodeControl,
  encodeControl,
  Subprotocol,
  type UnknownMessage,
} from '@parlance/protocol';
import WebSocket from 'ws';
import type { Report } from '../report.js';

/** (f) PING, PONG and CLOSE, sent by hand over a bare WebSocket. */
export async function showControl(url: string, report: Report): Promise<void> {
  report.section('PING, PONG and CLOSE over a bare WebSocket');
  const socket = new WebSocket(url, [Subprotocol.BINARY]);
  const replies: (ControlMessage | UnknownMessage)[] = [];
  const closed = new Promise<number>((resolve) => socket.once('close', resolve));
  const send = (message: ControlMessage) => socket.send(encodeControl(message));
  const timestamp = Date.now();

  socket.on('message', (data: Buffer) => {
    const message = decodeControl(data);
    replies.push(message);
    const sessionId = message.sessionId;
    if (message.type === 'ACCEPT') send({ type: 'PING', sessionId, timestamp, payload: {} });
    if (message.type === 'PONG')
      send({ type: 'CLOSE', sessionId, timestamp, payload: { reason: 'NORMAL', message: '' } });
  });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  send({
    type: 'HELLO',
    sessionId: null,
    timestamp,
    payload: {
      shape: 'flat',
      version: '1.0',
      algorithms: ['NONE'],
      encodings: [],
      preferredEncoding: null,
      securityScanning: false,
      maxPayloadSize: 0,
      supportsStreaming: false,
      extensions: {},
    },
  });
  const code = await closed;
  report.check(
    'HELLO → ACCEPT, PING → PONG, CLOSE → CLOSE',
    replies.map((reply) => reply.type).join() === 'ACCEPT,PONG,CLOSE' && code === 1000,
    `close code ${code}`,
  );
}

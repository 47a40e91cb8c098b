import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** The server's side of an opening handshake (RFC 6455 section 4.2), as strict as the library `ws`. */

/** Why a request is not a WebSocket upgrade: HTTP status, text, and headers of the answer. */
export interface UpgradeFault {
  readonly status: 400 | 405;
  readonly message: string;
  readonly headers?: readonly string[];
}

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
/** 16 bytes in base64. */
const KEY = /^[+/0-9A-Za-z]{22}==$/;
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Version 8 has the same frames. */
const VERSIONS = [13, 8];

export function faultOfUpgrade(request: {
  readonly method?: string | undefined;
  readonly headers: IncomingHttpHeaders;
}): UpgradeFault | undefined {
  const { headers } = request;
  if (request.method !== 'GET') return { status: 405, message: 'A WebSocket upgrade is a GET request.' };
  if (headers.upgrade?.toLowerCase() !== 'websocket')
    return { status: 400, message: 'The header Upgrade must be "websocket".' };
  if (!KEY.test(headers['sec-websocket-key'] ?? ''))
    return { status: 400, message: 'The header Sec-WebSocket-Key must be 16 bytes in base64.' };
  if (!VERSIONS.includes(Number(headers['sec-websocket-version']))) {
    const versions = VERSIONS.join(', ');
    return {
      status: 400,
      message: `The header Sec-WebSocket-Version must be one of ${versions}.`,
      headers: [`Sec-WebSocket-Version: ${versions}`],
    };
  }
  const protocols = headers['sec-websocket-protocol'];
  if (protocols !== undefined && !isList(protocols))
    return { status: 400, message: 'The header Sec-WebSocket-Protocol must be a list of different names.' };
  return undefined;
}

function isList(header: string): boolean {
  const names = header.split(',').map((name) => name.replace(/^[ \t]+|[ \t]+$/g, ''));
  return names.every((name) => TOKEN.test(name)) && new Set(names).size === names.length;
}

/** Accepts a request without faults. No extension that a client offers is selected. */
export function acceptUpgrade(headers: IncomingHttpHeaders, subprotocol: string | undefined): string {
  const accept = createHash('sha1').update(`${headers['sec-websocket-key']}${GUID}`).digest('base64');
  return (
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n` +
    (subprotocol === undefined ? '\r\n' : `Sec-WebSocket-Protocol: ${subprotocol}\r\n\r\n`)
  );
}

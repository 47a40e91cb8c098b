import { type ClientSession, connect, type WebSocketConstructor, type WebSocketLike } from '@parlance/client';
import WebSocket from 'ws';
import { options } from './client.js';

/** The client for a Node without a WebSocket of its own. */

const TracedWebSocket: WebSocketConstructor = class extends WebSocket {
  constructor(url: string, protocols: string[]) {
    super(url, protocols, { headers: { 'user-agent': 'user-project' } });
  }
};

export function dial(url: string, isTraced: boolean): Promise<ClientSession> {
  return connect(url, { ...options, WebSocket: isTraced ? TracedWebSocket : WebSocket });
}

export const open = (url: string): WebSocketLike => new TracedWebSocket(url, ['m2m.v1']);

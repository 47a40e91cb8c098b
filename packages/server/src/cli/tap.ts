import type { WebSocketConstructor } from '@parlance/client';
import type { Direction } from '@parlance/protocol/inspect';
import { WebSocketClient } from '../http/ws.js';

/** Observes the frames of a WebSocket. */
export interface Tap {
  /** A frame, before the client handles it. */
  onFrame(direction: Direction, frame: Uint8Array | string): void;
  /** An open connection was closed. */
  onClose(code: number, reason: string): void;
}

/** A WebSocket class that reports its frames to `tap`. */
export function tappedWebSocket(tap: Tap): WebSocketConstructor {
  return class extends WebSocketClient {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { perMessageDeflate: false });
      // Registered before the client's own listeners, so that a frame is shown before its consequences.
      this.addEventListener('message', ({ data }) => {
        tap.onFrame('received', typeof data === 'string' ? data : bytesOf(data as ArrayBuffer | Buffer));
      });
      let wasOpen = false;
      this.addEventListener('open', () => {
        wasOpen = true;
      });
      this.addEventListener('close', ({ code, reason }) => {
        // The client itself reports why a connection could not be opened.
        if (wasOpen) tap.onClose(code, reason);
      });
    }

    override send(data: string | Uint8Array<ArrayBuffer>): void {
      // The session reuses the memory of a frame once the peer has acknowledged it.
      tap.onFrame('sent', typeof data === 'string' ? data : data.slice());
      super.send(data);
    }
  };
}

function bytesOf(data: ArrayBuffer | Buffer): Uint8Array {
  return data instanceof ArrayBuffer ? new Uint8Array(data) : data;
}

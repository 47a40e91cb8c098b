import type { WebSocketConstructor } from '@parlance/client';
import type { Direction } from '@parlance/protocol/inspect';
import { WebSocketClient } from '../http/ws.js';

/** What passes through a WebSocket, as it passes. */
export interface Tap {
  /** A frame, before anybody has acted on it. */
  onFrame(direction: Direction, frame: Uint8Array | string): void;
  /** A connection that was open has ended. */
  onClose(code: number, reason: string): void;
}

/** A WebSocket class whose connections tell `tap` what they carry. */
export function tappedWebSocket(tap: Tap): WebSocketConstructor {
  return class extends WebSocketClient {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { perMessageDeflate: false });
      // Before the client's own listeners, so that a frame is seen before its consequences.
      this.addEventListener('message', ({ data }) => {
        tap.onFrame('received', typeof data === 'string' ? data : bytesOf(data as ArrayBuffer | Buffer));
      });
      let wasOpen = false;
      this.addEventListener('open', () => {
        wasOpen = true;
      });
      this.addEventListener('close', ({ code, reason }) => {
        // Of attempts that came to nothing the client knows more.
        if (wasOpen) tap.onClose(code, reason);
      });
    }

    override send(data: string | Uint8Array<ArrayBuffer>): void {
      // The session writes to a frame's memory again, once its peer has it.
      tap.onFrame('sent', typeof data === 'string' ? data : data.slice());
      super.send(data);
    }
  };
}

function bytesOf(data: ArrayBuffer | Buffer): Uint8Array {
  return data instanceof ArrayBuffer ? new Uint8Array(data) : data;
}

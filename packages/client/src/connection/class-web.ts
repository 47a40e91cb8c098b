import type { WebSocketConstructor } from './web-socket.js';

interface Choice {
  readonly WebSocket?: WebSocketConstructor | undefined;
}

/** The runtime has a class of WebSockets. */
export const withWebSocket = <Options extends Choice>(options: Options): Options | Promise<Options> =>
  options;

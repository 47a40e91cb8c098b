import type { WebSocketConstructor } from './web-socket.js';

interface Choice {
  readonly WebSocket?: WebSocketConstructor | undefined;
}

/** Node 20 has no class of WebSockets: that of `ws`, if it is installed. A `SharedWorker` has its own. */
export async function withWebSocket<Options extends Choice>(options: Options): Promise<Options> {
  const { WebSocket: given } = options;
  if (given !== undefined || 'WebSocket' in globalThis || 'SharedWorker' in globalThis) return options;
  try {
    // biome-ignore lint/style/noRestrictedImports: it is optional, and what the application would pass
    const { WebSocket } = await import('ws');
    return { ...options, WebSocket: WebSocket as unknown as WebSocketConstructor };
  } catch {
    // Connecting says then what to install.
    return options;
  }
}

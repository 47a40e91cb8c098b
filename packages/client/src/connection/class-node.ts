import type { WebSocketConstructor } from './web-socket.js';

interface Choice {
  readonly WebSocket?: WebSocketConstructor | undefined;
  readonly shared?: unknown;
}

/** Node 20 has no class of WebSockets: that of `ws`, if it is installed. A shared session uses that of its worker. */
export async function withWebSocket<Options extends Choice>(options: Options): Promise<Options> {
  const { WebSocket: given, shared = false } = options;
  if (given !== undefined || shared !== false || 'WebSocket' in globalThis) return options;
  try {
    // biome-ignore lint/style/noRestrictedImports: it is optional, and what the application would pass
    const { WebSocket } = await import('ws');
    return { ...options, WebSocket: WebSocket as unknown as WebSocketConstructor };
  } catch {
    // Connecting says then what to install.
    return options;
  }
}

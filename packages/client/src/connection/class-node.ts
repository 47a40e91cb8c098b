import type { WebSocketConstructor } from './web-socket.js';

interface Choice {
  readonly WebSocket?: WebSocketConstructor | undefined;
}

/** Node 20 has no class of WebSockets: that of `ws`, if it is installed. */
export async function withWebSocket<Options extends Choice>(options: Options): Promise<Options> {
  if (options.WebSocket !== undefined || 'WebSocket' in globalThis) return options;
  try {
    // biome-ignore lint/style/noRestrictedImports: it is optional, and what the application would pass
    const { WebSocket } = await import('ws');
    return { ...options, WebSocket: WebSocket as unknown as WebSocketConstructor };
  } catch {
    // Connecting says then what to install.
    return options;
  }
}

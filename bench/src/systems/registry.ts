import type { System, SystemName } from './system.js';

/** Loads one system only, so that a process contains nothing of the others. */
export async function loadSystem(name: SystemName): Promise<System> {
  switch (name) {
    case 'ws':
      return (await import('./ws.js')).plainWebSocket;
    case 'ws+cork':
      return (await import('./ws.js')).corkedWebSocket;
    case 'bound':
      return (await import('./bound.js')).bound;
    case 'ws+id':
      return (await import('./ws-id.js')).webSocketWithIds;
    case 'session':
      return (await import('./session.js')).session;
    case 'socket.io':
      return (await import('./socket-io.js')).socketIo;
  }
}

import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** Bytes on all connections of a server: including headers and frames, excluding TCP's own. */
export interface Traffic {
  readonly read: number;
  readonly written: number;
}

/** Counts the bytes on the sockets of `server`. */
export function countTraffic(server: Server): () => Traffic {
  const open = new Set<Socket>();
  let [read, written] = [0, 0];
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => {
      open.delete(socket);
      read += socket.bytesRead;
      written += socket.bytesWritten;
    });
  });
  return () => {
    const total = { read, written };
    for (const socket of open) {
      total.read += socket.bytesRead;
      total.written += socket.bytesWritten;
    }
    return total;
  };
}

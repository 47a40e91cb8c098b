import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Served } from './ledger.js';

/** Where the handlers of all nodes get their answers from. It knows how often it was asked, and who left early. */

export interface Upstream extends AsyncDisposable {
  readonly port: number;
  /** Every question that it was asked. */
  served(): readonly Served[];
}

export async function startUpstream(): Promise<Upstream> {
  const all = new Map<string, Served>();
  const http = createServer((request, response) => {
    const query = new URL(request.url ?? '', 'http://upstream').searchParams;
    const id = query.get('id') ?? '';
    const served: Served = all.get(id) ?? { id, node: 0, times: 0, leftAt: undefined };
    all.set(id, served);
    served.times++;
    served.node = Number(query.get('node'));
    answer(response, Number(query.get('parts')), Number(query.get('paceMs')), () => {
      served.leftAt = Date.now();
    });
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    port: (http.address() as AddressInfo).port,
    served: () => [...all.values()],
    async [Symbol.asyncDispose]() {
      http.close();
      http.closeAllConnections();
    },
  };
}

/** @param onLeft the node closed the connection before the last part. */
function answer(response: ServerResponse, parts: number, paceMs: number, onLeft: () => void): void {
  let next = 0;
  const timer = setInterval(() => {
    if (next < parts) response.write(`${next++}\n`);
    if (next < parts) return;
    clearInterval(timer);
    response.end();
  }, paceMs);
  response.on('close', () => {
    clearInterval(timer);
    if (!response.writableFinished) onLeft();
  });
}

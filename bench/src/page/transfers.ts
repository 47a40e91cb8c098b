import { setTimeout as sleep } from 'node:timers/promises';
import type { CDPSession } from 'playwright-core';

/** The requests of a page, and the bytes that they received, as Chromium's network stack counts them. */

export interface Transferred {
  readonly requests: number;
  /** Compressed bodies and response headers; without the document and without WebSockets. */
  readonly bytes: number;
}

interface Transfer {
  readonly url: string;
  /** Wall-clock milliseconds. */
  readonly startedAt: number;
  /** The bytes that have arrived, and when. */
  readonly pieces: { readonly at: number; readonly bytes: number }[];
  /** All bytes, once everything has arrived. */
  end: { readonly at: number; readonly bytes: number } | undefined;
  isOver: boolean;
}

const POLL_MS = 50;

export class Transfers {
  readonly #byId = new Map<string, Transfer>();
  /** Wall-clock milliseconds minus Chromium's monotonic ones. */
  #offset = 0;

  static async watch(cdp: CDPSession): Promise<Transfers> {
    const transfers = new Transfers();
    transfers.#listen(cdp);
    await cdp.send('Network.enable');
    return transfers;
  }

  #listen(cdp: CDPSession): void {
    const at = (timestamp: number) => timestamp * 1000 + this.#offset;
    cdp.on('Network.requestWillBeSent', ({ requestId, type, request, timestamp, wallTime }) => {
      this.#offset = (wallTime - timestamp) * 1000;
      if (type === 'Document' || request.url.startsWith('data:')) return;
      const startedAt = at(timestamp);
      this.#byId.set(requestId, { url: request.url, startedAt, pieces: [], end: undefined, isOver: false });
    });
    const receive = (requestId: string, timestamp: number, bytes: number) =>
      this.#byId.get(requestId)?.pieces.push({ at: at(timestamp), bytes: Math.max(0, bytes) });
    cdp.on('Network.responseReceived', ({ requestId, timestamp, response }) =>
      receive(requestId, timestamp, response.encodedDataLength),
    );
    cdp.on('Network.dataReceived', ({ requestId, timestamp, encodedDataLength }) =>
      receive(requestId, timestamp, encodedDataLength),
    );
    cdp.on('Network.loadingFinished', ({ requestId, timestamp, encodedDataLength }) => {
      const transfer = this.#byId.get(requestId);
      if (transfer === undefined) return;
      transfer.end = { at: at(timestamp), bytes: encodedDataLength };
      transfer.isOver = true;
    });
    cdp.on('Network.loadingFailed', ({ requestId }) => {
      const transfer = this.#byId.get(requestId);
      if (transfer !== undefined) transfer.isOver = true;
    });
  }

  /** Resolves once no request is under way. */
  async settled(): Promise<void> {
    while ([...this.#byId.values()].some(({ isOver }) => !isOver)) await sleep(POLL_MS);
  }

  /** @param time in wall-clock milliseconds. */
  until(time: number): Transferred {
    let [requests, bytes] = [0, 0];
    for (const { startedAt, pieces, end } of this.#byId.values()) {
      if (startedAt > time) continue;
      requests++;
      if (end !== undefined && end.at <= time) bytes += end.bytes;
      else for (const piece of pieces) if (piece.at <= time) bytes += piece.bytes;
    }
    return { requests, bytes };
  }
}
